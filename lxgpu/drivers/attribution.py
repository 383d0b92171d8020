"""Whose process it is: the container it runs in, and the account in there.

NVML names processes by their host pids. The container's name comes from LXD's monitor, the parent of
the container's init ("[lxc monitor] DIRECTORY NAME"), and not from the cgroup's name, which may have
a suffix or look like another's. Sources: proc(5), pid_namespaces(7), user_namespaces(7), LXC's titles.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.processes import all_pids, pid_namespace, read_stat, spaces_of
from lxgpu.drivers.rooted import below_root

_MONITOR = re.compile(rb"\[lxc monitor\] \S+ ([^\s\0]+)|\0forkstart\0([^\0]+)\0")
_LONGEST_PASSWD = 1 << 20


@dataclass(frozen=True, slots=True)
class Owner:
    """The container (None: the host itself) and the account (None: not known) of a process."""

    instance: str | None = None
    user: str | None = None


def owner_of(pid: int, cgroups: Cgroups) -> Owner:
    """Whose process `pid` is; an empty answer when it is gone.

    A container outside LXD's default project is called `PROJECT_NAME`, as LXD's own monitor calls it.
    """
    uid = _uid(pid)
    if uid is None:
        return Owner()
    part = cgroups.part(pid) or _part_by_namespace(pid, cgroups)
    if part is None:
        return Owner(user=_host_account(uid))
    init = _init_of(part, cgroups)
    if init is None:
        return Owner(instance=_plain(part), user=str(uid))
    return Owner(instance=_monitored(init) or _plain(part), user=_account(init, uid))


def _part_by_namespace(pid: int, cgroups: Cgroups) -> str | None:
    """The container's cgroup of a process that left it, but not its pid namespace, or made one below that."""
    spaces = frozenset(spaces_of(pid))
    if not spaces:
        return None
    parts = (cgroups.part(other) for other in all_pids() if pid_namespace(other) in spaces)
    return next((part for part in parts if part is not None), None)


def _init_of(part: str, cgroups: Cgroups) -> int | None:
    """The init of a container: the one process that has the number 1 in a namespace right below the host's."""
    return next((pid for pid in sorted(cgroups.processes_of(part)) if _status(pid, "NSpid") == [pid, 1]), None)


def _monitored(init: int) -> str | None:
    """The name that LXD's monitor bears, the parent of the init."""
    found = read_stat(init)
    try:
        title = b"" if found is None else Path(f"/proc/{found.parent}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    named = _MONITOR.search(title)
    return None if named is None else (named[1] or named[2]).decode(errors="replace")


def _plain(part: str) -> str:
    return part.rpartition("/")[2].removeprefix("lxc.payload.")


def _uid(pid: int) -> int | None:
    numbers = _status(pid, "Uid")
    return numbers[0] if numbers else None


def _status(pid: int, name: str) -> list[int]:
    """The numbers of a line of /proc/PID/status; none when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = re.search(rf"^{name}:(.*)$", text, re.MULTILINE)
    return [int(word) for word in found[1].split()] if found else []


def _host_account(uid: int) -> str:
    import pwd  # noqa: PLC0415 - rarely needed

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _account(init: int, outside: int) -> str:
    """The account's name in the container of `init`, or its number there; one from outside keeps the host's number."""
    try:
        inside = _mapped(outside, Path(f"/proc/{init}/uid_map").read_text())
        with below_root(init, "etc/passwd", os.O_RDONLY | os.O_NONBLOCK) as handle:
            text = os.read(handle, _LONGEST_PASSWD) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:  # no such file, or the container has ended
        return str(outside)
    if inside is None:
        return str(outside)
    named = re.search(rf"^([^:\s]+):[^:]*:{inside}:", text.decode(errors="replace"), re.MULTILINE)
    return named[1] if named and named[1].isprintable() else str(inside)


def _mapped(outside: int, uid_map: str) -> int | None:
    """A uid of the host as it is seen in the user namespace with this map."""
    for line in uid_map.splitlines():
        first, start, count = map(int, line.split())
        if start <= outside < start + count:
            return first + outside - start
    return None
