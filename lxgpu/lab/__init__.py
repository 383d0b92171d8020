"""A real LXD with pretend GPUs, to rehearse and to test."""
