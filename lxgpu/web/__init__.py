"""The page: a process without any power. It reads status.json, and asks the daemon for everything else."""
