"""Whether devices can be denied on this host: tried with a cgroup that is made for it and goes again.

A process that opens /dev/full (1:7, which nobody needs) must be refused while the rule stands and let through after.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from lxgpu.drivers import device_bpf
from lxgpu.drivers.cgroups import DEVICES, UNIFIED, Cgroups

_DEVICE, _PATH = (1, 7), "/dev/full"
_OPEN = f'echo 0 >"$1/cgroup.procs" && : <{_PATH}'
_LONGEST_S = 5.0


def try_rules(cgroups: Cgroups) -> dict[str, str]:
    """Each way this host's kernel offers to deny devices: why it does not work, empty when it does."""
    ways: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], None]]] = {
        "v1": (DEVICES, _deny_v1, _allow_v1),
        "bpf": (UNIFIED, _deny_bpf, _allow_bpf),
    }
    found = {}
    for name, (controller, deny, allow) in ways.items():
        tree = cgroups.tree(controller)
        if tree is not None:
            found[name] = _try(tree, deny, allow)
    return found


def version(cgroups: Cgroups) -> str:
    """`v1`, `v2`, `hybrid` or `none`."""
    old, new = cgroups.tree(DEVICES) is not None, cgroups.tree(UNIFIED) is not None
    return {(True, True): "hybrid", (True, False): "v1", (False, True): "v2"}.get((old, new), "none")


def _try(tree: Path, deny: Callable[[Path], None], allow: Callable[[Path], None]) -> str:
    place = tree / f"lxgpu-doctor-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        return f"{tree}: {error.strerror}"
    try:
        before = _opens(place)
        if before:
            return f"{_PATH} cannot be opened even without a rule: {before}"
        deny(place)
        if not _opens(place):
            return "the rule was taken, and the device could be opened all the same"
        allow(place)
        after = _opens(place)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        place.rmdir()
    return f"the rule could not be lifted again: {after}" if after else ""


def _opens(place: Path) -> str:
    """Why a process in the cgroup cannot open the device; empty when it can."""
    argv = ["sh", "-c", _OPEN, "sh", str(place)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    return "" if ran.returncode == 0 else ran.stderr.strip() or f"status {ran.returncode}"


def _words() -> str:
    return f"c {_DEVICE[0]}:{_DEVICE[1]} rwm"


def _deny_v1(place: Path) -> None:
    (place / "devices.deny").write_text(_words())


def _allow_v1(place: Path) -> None:
    (place / "devices.allow").write_text(_words())


def _deny_bpf(place: Path) -> None:
    device_bpf.attach(place, {_DEVICE})


def _allow_bpf(place: Path) -> None:
    device_bpf.attach(place, ())
