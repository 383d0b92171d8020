"""Who gets cards: what a lab would use instead, each faithful to its source, and lxgpu's own policy."""
