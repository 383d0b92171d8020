"""How a host is set up, read from its files, and the little that may be mended there.

Sources: proc(5), subuid(5), sysctl.d(5), the files of NVIDIA's driver.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.lxd_socket import find_socket
from lxgpu.drivers.rule_trial import try_rules, version
from lxgpu.drivers.ulimits import may_raise
from lxgpu.errors import LxgpuError
from lxgpu.ports.facts import Door, FileMode, HostFacts, IdRange, Places

PACKAGES = ("pylxd", "pynvml", "nvidia-ml-py", "requests")
NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
SYSCTL_FILE = "etc/sysctl.d/60-lxgpu.conf"
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/lib/wsl/lib")
_LIBRARY = "libnvidia-ml.so.1"
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.[\d.]+)")
_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
_CONNECT_S = 3.0


class LocalSetup:
    """`ports.HostSetup` of this machine; `root` is `/` but for trees made in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def facts(self, places: Places, sysctls: tuple[str, ...]) -> HostFacts:
        """Everything at once, in some milliseconds; what cannot be read is None."""
        where = places.socket or find_socket()
        is_root = os.geteuid() == 0
        cgroups = Cgroups(self._root)
        free, size = _space(places.state_dir)
        return HostFacts(
            root=is_root,
            may_raise=may_raise(),
            packages={name: _installed(name) for name in PACKAGES},
            socket=where,
            door=knock(where),
            lab=os.environ.get("LXGPU_LAB", ""),
            driver=self._driver(),
            library=self._library(),
            nodes={name: (self._root / "dev" / name).exists() for name in NODES},
            cgroups=version(cgroups),
            rules=try_rules(cgroups) if is_root else {},
            shadow=self._has_newuidmap(),
            subuid=self._ranges("etc/subuid"),
            subgid=self._ranges("etc/subgid"),
            sysctls={name: self._number(name) for name in sysctls},
            local_ports=self._local_ports(),
            listen=places.listen,
            listen_error=_cannot_listen(places.listen, daemon_of(where)),
            files=tuple(_modes(places)),
            private_keys=tuple(_private(places.keys_made)),
            state_kind=self._kind_of(places.state_dir),
            state_free=free,
            state_size=size,
        )

    def set_sysctl(self, name: str, value: int) -> None:
        """Set it now, and in a file of sysctl.d for the boots to come."""
        if not _NAME.fullmatch(name):
            raise LxgpuError("usage", f"{name!r} is no kernel parameter")
        file = self._root / SYSCTL_FILE
        kept = _lines(file)
        others = [line for line in kept if line.partition("=")[0].strip() != name]
        head = [] if kept else ["# Written by lxgpu doctor --fix."]
        try:
            self._sysctl(name).write_text(f"{value}\n")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join([*head, *others, f"{name} = {value}"]) + "\n")
        except OSError as error:
            raise _refused(f"{name} cannot be set", error) from error

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits; a link is not followed."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                os.fchmod(handle, mode)
            finally:
                os.close(handle)
        except OSError as error:
            raise _refused(f"the mode of {path} cannot be set", error) from error

    def make_nodes(self) -> None:
        """`nvidia-modprobe` loads the modules and makes the nodes."""
        try:
            ran = subprocess.run(
                ["nvidia-modprobe", "-c", "0", "-u"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LxgpuError("unavailable", f"nvidia-modprobe: {error}", fix="install nvidia-modprobe") from error
        if ran.returncode != 0:
            raise LxgpuError("unavailable", "nvidia-modprobe failed", why=ran.stderr.strip(), fix="dmesg | tail")

    def _driver(self) -> str | None:
        found = _DRIVER.search("\n".join(_lines(self._root / "proc/driver/nvidia/version")))
        return found[1] if found else None

    def _library(self) -> str | None:
        """The version that the library's file is named by; None for one that has none (or is not there)."""
        own = os.environ.get("LD_LIBRARY_PATH", "") if self._root == Path("/") else ""
        folders = [Path(name) for name in own.split(":") if name]
        for folder in (*folders, *(self._root / name for name in _LIBRARIES)):
            link = folder / _LIBRARY
            if link.exists():
                version_text = link.resolve().name.partition(".so.")[2]
                return version_text if "." in version_text else None
        return None

    def _has_newuidmap(self) -> bool:
        return any((self._root / folder / "newuidmap").exists() for folder in ("usr/bin", "bin", "usr/local/bin"))

    def _ranges(self, file: str) -> tuple[IdRange, ...]:
        found = [line.split(":") for line in _lines(self._root / file)]
        return tuple(
            IdRange(first=int(words[1]), count=int(words[2]))
            for words in found
            if len(words) == 3 and words[0] in {"root", "0"} and words[1].isdecimal() and words[2].isdecimal()  # noqa: PLR2004 -- user:first:count
        )

    def _sysctl(self, name: str) -> Path:
        return self._root / "proc/sys" / name.replace(".", "/")

    def _number(self, name: str) -> int | None:
        lines = _lines(self._sysctl(name))
        return int(lines[0]) if lines and lines[0].strip().isdecimal() else None

    def _local_ports(self) -> tuple[int, int] | None:
        words = " ".join(_lines(self._sysctl("net.ipv4.ip_local_port_range"))).split()
        return (int(words[0]), int(words[1])) if len(words) == 2 else None  # noqa: PLR2004 -- first and last

    def _kind_of(self, path: Path) -> str | None:
        """The type of the file system a path lies on: that of the longest mount point above it."""
        there = _nearest(path)
        best: tuple[str, str | None] = ("", None)
        for line in _lines(self._root / "proc/self/mountinfo"):
            left, _, right = line.partition(" - ")
            point = left.split(" ")[4].replace("\\040", " ")
            if there.is_relative_to(point) and len(point) >= len(best[0]):
                best = (point, right.split(" ")[0])
        return best[1]


def knock(where: str) -> Door:
    """Open the engine's socket and say what happened."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(_CONNECT_S)
        try:
            wire.connect(where)
        except FileNotFoundError:
            return Door.MISSING
        except ConnectionRefusedError:
            return Door.REFUSED
        except PermissionError:
            return Door.DENIED
        except OSError:
            return Door.OTHER
    return Door.OPEN


def daemon_of(where: str) -> int | None:
    """The process behind a socket, where it can be asked and lives in a network of its own; else None."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(_CONNECT_S)
        try:
            wire.connect(where)
            pid, _, _ = struct.unpack("iII", wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            apart = Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        except OSError:
            return None
    return int(pid) if apart else None


def local_addresses(trie: str) -> frozenset[str]:
    """The IPv4 addresses of a network namespace, from the text of its /proc/PID/net/fib_trie."""
    found, address = set(), ""
    for line in trie.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            address = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            found.add(address)
    return frozenset(found)


def _cannot_listen(address: str, daemon: int | None) -> str:
    """Why nothing can be published on an address; empty when it is one of the host (of the daemon's network)."""
    if not address:
        return ""
    if daemon is not None and ":" not in address:
        known = local_addresses("\n".join(_lines(Path(f"/proc/{daemon}/net/fib_trie"))))
        return "" if address in known else "no address of the network that LXD runs in"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as wire:
        try:
            wire.bind((address, 0))
        except OSError as error:
            return "no address of this host" if error.errno == errno.EADDRNOTAVAIL else str(error.strerror)
    return ""


def _modes(places: Places) -> Iterator[FileMode]:
    for paths, secret in ((places.secret, True), (places.public, False)):
        for path in paths:
            try:
                found = path.stat()
            except OSError:
                continue  # not there, or not ours to see
            yield FileMode(path=str(path), mode=found.st_mode, uid=found.st_uid, secret=secret)


def _private(folder: Path) -> Iterator[str]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        if any("PRIVATE KEY" in line for line in _lines(path)[:1]):
            yield str(path)


def _space(path: Path) -> tuple[int | None, int | None]:
    try:
        found = os.statvfs(_nearest(path))
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _nearest(path: Path) -> Path:
    """The path itself, or the folder nearest above it that is there."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _installed(name: str) -> str | None:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return None


def _refused(what: str, error: OSError) -> LxgpuError:
    return LxgpuError(
        "not_allowed", what, why=f"{error.filename or ''}: {error.strerror}", fix="sudo lxgpu doctor --fix"
    )
