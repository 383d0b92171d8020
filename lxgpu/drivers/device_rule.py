"""Which cards a container may open: taking a GPU device off it does not revoke it, this does.

LXD sets no device rule for unprivileged containers, so a user who bound a node elsewhere could open
it again. The rule denies opening by device number, at any path; what is open stays open, and it goes
with the container when that stops. Sources: the kernel's Documentation/admin-guide/cgroup-v1/devices.rst
and security/device_cgroup.c; `device_bpf` for version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lxgpu.drivers import device_bpf
from lxgpu.drivers.cgroups import DEVICES, UNIFIED, Cgroups, no_cgroup, walk
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

_CONTROLLERS = {"auto": (DEVICES, UNIFIED), "v1": (DEVICES,), "bpf": (UNIFIED,)}
_EVERYTHING = "a *:* rwm"


def set_rule(
    cgroups: Cgroups,
    init: int,
    *,
    denied: Iterable[DeviceNode],
    allowed: Iterable[DeviceNode],
    mode: str = "auto",
) -> None:
    """Make the rule of a running instance: `denied` cannot be opened, `allowed` can.

    `mode` is `v1` (devices controller), `bpf` (version 2), `off` (nothing is set), or `auto`: version 1
    where the instance has a cgroup there, else version 2.

    Raises:
        LxgpuError: `unavailable`: the instance has no cgroup of its own, or the kernel refused.
    """
    if mode == "off":
        return
    name, top = _place(cgroups, init, mode)
    with _told(init, top):
        if name == DEVICES:
            _set_v1(top, denied, allowed)
        else:
            device_bpf.attach(top, _numbers(denied), replace_nameless=_unprivileged(init))


def deny(cgroups: Cgroups, init: int, nodes: Iterable[DeviceNode], *, mode: str = "auto") -> None:
    """Let nothing in a running instance open these nodes either; as `set_rule` otherwise."""
    if mode == "off":
        return
    name, top = _place(cgroups, init, mode)
    with _told(init, top):
        if name == DEVICES:
            _set_v1(top, nodes, ())
        else:
            device_bpf.attach(top, _numbers(nodes), beside=True)


def _place(cgroups: Cgroups, init: int, mode: str) -> tuple[str, Path]:
    """The controller whose rule counts for an instance, and its directory there."""
    tops = {name: top for name in _CONTROLLERS[mode] if (top := cgroups.top(init, name)) is not None and top.is_dir()}
    if not tops:
        raise no_cgroup(init)
    return next(iter(tops.items()))


@contextmanager
def _told(init: int, top: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not top.is_dir():
            raise no_cgroup(init) from error
        raise LxgpuError(
            "unavailable",
            f"the device rule of the container of process {init} could not be set",
            why=f"{top}: {error.strerror}",
            fix="lxgpu has to run as root, outside of any container",
        ) from error


def _numbers(nodes: Iterable[DeviceNode]) -> set[tuple[int, int]]:
    return {(node.major, node.minor) for node in nodes}


def _set_v1(top: Path, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
    """A denial is inherited by the cgroups below; it is lifted by its very own words only, and in each of them."""
    for node in denied:
        (top / "devices.deny").write_text(_words(node))
    lifted = [_words(node) for node in allowed]
    for below in walk(top) if lifted else ():
        with suppress(FileNotFoundError):
            # A cgroup with a list of its own (a nested Docker's) keeps its own idea of what it may open.
            if below == top or _EVERYTHING in (below / "devices.list").read_text():
                for words in lifted:
                    (below / "devices.allow").write_text(words)


def _unprivileged(init: int) -> bool:
    """Whether root inside is somebody else outside.

    Only a privileged container has a device list by LXD, which on a pure version 2 host liblxc makes a program
    of. An unprivileged one's program comes from the lines in `raw.lxc` that deny all cards until lxgpu's own
    rule is set; that one is replaced, or no card could ever be lifted.
    """
    first = Path(f"/proc/{init}/uid_map").read_text().split()
    return bool(first) and first[:2] != ["0", "0"]


def _words(node: DeviceNode) -> str:
    return f"c {node.major}:{node.minor} rwm"
