"""The table of settings: key, default, how its text is read, and one line of help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.units import parse_duration

FLAGGED = ("policy", "profiles", "templates", "state_dir", "run_dir")
"""The settings with a flag of their own, beside --config."""
_FIRST_PORT, _LAST_PORT = 1024, 65535
DEFAULT_PAGE = "http://127.0.0.1:8470"
_DEFAULT_METRICS = "127.0.0.1:9470"
OFF = "off"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An IP address and a port of this host to listen on; port 0 is any that is free."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def _path(text: str) -> Path:
    if not text.startswith("/") or not text.isprintable():
        raise LxgpuError("usage", f"{text!r} is no whole path", why="a path in the settings starts with /")
    return Path(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise LxgpuError("usage", f"{text!r} is not one of {', '.join(words)}")
        return text

    return read


def _word(text: str) -> str:
    if not text or not text.isprintable() or any(char.isspace() or char == "/" for char in text):
        raise LxgpuError("usage", f"{text!r} is no name", why="a name has no spaces and no slashes")
    return text


def _maybe_word(text: str) -> str:
    return _word(text) if text else ""


def _address(text: str) -> str:
    from ipaddress import ip_address  # noqa: PLC0415 -- 3 ms, and the default needs none

    if text == "0.0.0.0":  # noqa: S104 -- the default, said in the docs
        return text
    try:
        return str(ip_address(text))
    except ValueError as error:
        raise LxgpuError("usage", f"{text!r} is no IP address", why="0.0.0.0 is every IPv4 address") from error


def _ports(text: str) -> range:
    first, dash, last = text.partition("-")
    whole = first.isascii() and first.isdigit() and last.isascii() and last.isdigit()
    if not dash or not whole or not _FIRST_PORT <= int(first) <= int(last) <= _LAST_PORT:
        why = f"ports are given like 22000-22999, from {_FIRST_PORT} to {_LAST_PORT}"
        raise LxgpuError("usage", f"{text!r} is no range of ports", why=why)
    return range(int(first), int(last) + 1)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _LAST_PORT:
        raise LxgpuError("usage", f"{text!r} is no port", why=f"a port is a number from 1 to {_LAST_PORT}")
    return int(text)


def _page_url(text: str) -> str:
    from urllib.parse import urlsplit  # noqa: PLC0415 -- the default is read without it

    if text == DEFAULT_PAGE:
        return text
    why = "it is how browsers reach the page, as https://gpu.lab.example or http://127.0.0.1:8470"
    try:
        parts = urlsplit(text)
        sound = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or not text.isascii() or not text.isprintable() or any(char in text for char in " ?#@"):
        raise LxgpuError("usage", f"{text!r} is no address of a page", why=why)
    if parts.path.strip("/"):
        why = f"the page has no place below another: give it a name or a port of its own, and leave out {parts.path}"
        raise LxgpuError("usage", f"{text!r} has a path", why=why)
    return text.rstrip("/")


def _metrics(text: str) -> Endpoint | None:
    if text == OFF:
        return None
    address, colon, port = text.rpartition(":")
    if text == _DEFAULT_METRICS:
        return Endpoint(address, int(port))
    why = f"it is an address and a port of this host, as {_DEFAULT_METRICS} or [::1]:9470; or {OFF}"
    if not colon or (":" in address) != (address.startswith("[") and address.endswith("]")):
        raise LxgpuError("usage", f"{text!r} is no place to listen", why=why)
    try:
        return Endpoint(_address(address.strip("[]")), 0 if port == "0" else _port(port))
    except LxgpuError as error:
        raise LxgpuError("usage", f"{text!r} is no place to listen", why=why) from error


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 64:  # noqa: PLR2004 -- a sane bound
        raise LxgpuError("usage", f"{text!r} is no number of workers", why="1 to 64 can work at once")
    return int(text)


def _homes(text: str) -> str:
    return text if text == "volume" else str(_path(text))


def _command(text: str) -> tuple[str, ...]:
    from shlex import split  # noqa: PLC0415 -- only where there is one

    if not text:
        return ()
    try:
        words = tuple(split(text))
    except ValueError as error:
        raise LxgpuError("usage", f"{text!r} is no command: {error}") from error
    if not words or not words[0].startswith("/"):
        raise LxgpuError("usage", f"{text!r} does not start with a whole path")
    return words


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with a text form; `key` is dotted where config.yaml nests it."""

    key: str
    default: str
    read: Callable[[str], Any]
    help: str

    @property
    def variable(self) -> str:
        """The environment variable, such as LXGPU_NETWORK_PORTS."""
        return "LXGPU_" + self.key.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """How the flag is written: --state-dir; `--set network.ports=…` for those that have none of their own."""
        return f"--{self.key.replace('_', '-')}" if self.key in FLAGGED else f"--set {self.key}"

    @property
    def is_path(self) -> bool:
        """Whether a relative text means a path from the working directory."""
        return self.read is _path


TABLE: tuple[Setting, ...] = (
    Setting("policy", "/etc/lxgpu/policy.yaml", _path, "the policy file"),
    Setting("profiles", "/etc/lxgpu/profiles", _path, "own profiles, over those that come with lxgpu"),
    Setting("templates", "/etc/lxgpu/templates", _path, "own templates, over those that come with lxgpu"),
    Setting("keys", "/etc/lxgpu/keys", _path, "public keys as NAME.pub"),
    Setting("state_dir", "/var/lib/lxgpu", _path, "the inventory; a local disk"),
    Setting("run_dir", "/run/lxgpu", _path, "locks and sockets"),
    Setting("network.bridge", "lxdbr0", _word, "the bridge of the containers"),
    Setting("network.listen", "0.0.0.0", _address, "the host's address that SSH ports are published on"),  # noqa: S104 -- as documented
    Setting("network.ports", "22000-22999", _ports, "one SSH port a person, for life"),
    Setting("network.address", "", _maybe_word, "what people type after ssh; empty: the host's name"),
    Setting("pool", "default", _word, "the storage pool of containers and homes"),
    Setting("image", "base", _word, "the image that containers are made of"),
    Setting("profile", "base", _word, "the profile used when none is asked for"),
    Setting("homes", "volume", _homes, "volume: one a person; or a directory of the host that holds all homes"),
    Setting("keys_command", "", _command, "a program that prints the public keys of the name given to it"),
    Setting("kernel_log", "/dev/kmsg", _path, "where Xid lines are read"),
    Setting("proc", "/proc", _path, "where the numbers of MIG capabilities are read"),
    Setting(
        "nvidia",
        "auto",
        _one_of("auto", "on", "off"),
        "mount the driver's libraries: where there are any, always, never",
    ),
    Setting(
        "device_rule",
        "auto",
        _one_of("auto", "v1", "bpf", "off"),
        "how cards are denied: what the host has, cgroup v1, BPF, not at all",
    ),
    Setting(
        "quota_unenforced", "warn", _one_of("warn", "refuse"), "what to do where the pool cannot enforce a disk limit"
    ),
    Setting("workers", "4", _workers, "how many containers are made at once"),
    Setting("web.listen", "127.0.0.1", _address, "the host's address that the page listens on"),
    Setting("web.port", "8470", _port, "and its port"),
    Setting("web.url", DEFAULT_PAGE, _page_url, "how browsers reach the page: what links begin with"),
    Setting("web.metrics", _DEFAULT_METRICS, _metrics, "where Prometheus is answered: an address and a port, or off"),
    Setting("backup.to", "", _maybe_word, "an LXD remote that copies of the homes go to"),
    Setting("backup.every", "1d", parse_duration, "how often homes are snapshot"),
    Setting("backup.keep", "14d", parse_duration, "how long these snapshots live"),
)


@cache
def by_key() -> dict[str, Setting]:
    """The settings by their keys."""
    return {setting.key: setting for setting in TABLE}
