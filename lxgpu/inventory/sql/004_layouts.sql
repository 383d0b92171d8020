-- How a card is divided now; empty: it is not.

ALTER TABLE cards ADD COLUMN layout TEXT NOT NULL DEFAULT '';
