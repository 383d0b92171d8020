"""SSH sessions that people have open, told by the titles that sshd gives its processes.

One of a person is called `sshd: alice@pts/0`, `sshd: alice@notty` or `sshd: alice` (since OpenSSH 9.8
`sshd-session: …`); one that nobody has logged in to yet has brackets in its title. Anybody inside can give
a process of theirs such a title, so an open session is a reason to wait a while, and proves nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_SESSION = re.compile(rb"sshd(?:-session)?: [^\s\0\[/@]+(?:@[^\s\0]+)?")
_LONGEST = 256
"""A title that is longer is none of sshd's."""


def open_sessions(pids: Iterable[int]) -> int:
    """How many of the processes carry a person's session."""
    return sum(_SESSION.fullmatch(_title(pid)) is not None for pid in pids)


def _title(pid: int) -> bytes:
    try:
        handle = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return os.read(handle, _LONGEST).rstrip(b"\0")
    except ProcessLookupError:
        return b""
    finally:
        os.close(handle)
