-- Throw-away containers (`lxgpu run`): a person may have several, beside the one machine of their own on a host.

ALTER TABLE instances ADD COLUMN kind TEXT NOT NULL DEFAULT 'own' CHECK (kind IN ('own', 'run'));
DROP INDEX instance_owner;
CREATE UNIQUE INDEX instance_owner ON instances (owner, host) WHERE state <> 'trashed' AND kind = 'own';
