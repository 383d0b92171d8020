"""The inventory: what is meant to be, in SQLite."""
