"""Everything outside: LXD, NVML, /proc, SSH."""
