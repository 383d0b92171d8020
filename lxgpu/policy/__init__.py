"""What should happen: pure functions of a Snapshot."""
