"""Which TCP ports of the host are taken, in every network namespace that matters to it: its own.

Source: the kernel's Documentation/networking/proc_net_tcp.rst.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def listening_ports() -> frozenset[int]:
    """TCP ports on which anything of the host listens, over IPv4 and IPv6."""
    lines: list[str] = []
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # a kernel without IPv6 has no such file
            lines += Path("/proc/net", name).read_text().splitlines()[1:]
    rows = (line.split() for line in lines)
    return frozenset(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN)
