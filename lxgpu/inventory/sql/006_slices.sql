-- The MIG slices that were made on a card, with the boot of the host that they live as long as; empty: none.

ALTER TABLE cards ADD COLUMN made TEXT NOT NULL DEFAULT '';
