"""Use cases: they know ports and policy, never drivers."""
