"""The inventory: what is meant to be, in one SQLite file; and its twin in memory for tests and the simulator."""
