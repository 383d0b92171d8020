"""The short way of `lxgpu ls`: the same list by the same rules, without loading what explains faults.

`ls` may take three times as long as `lxc list`, of which Python, the command line's library and our types alone take
more. So the long way leaves behind what it found out (`remember`); as long as nothing of that has changed, and
nothing is out of the ordinary, the short way answers. In every other case it says None, and the long way is gone.
A test holds that both write the same.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxgpu.services.listing import Item

STATE_VARIABLE = "LXGPU_STATE_DIR"
STATE_DIR = "/var/lib/lxgpu"
FILE = "quick.json"
INVENTORY = "inventory.db"
POLICY = "policy.json"
_OTHERS = ("LXD_DIR", "INCUS_DIR")
"""Variables that matter beside our own."""


def containers(environ: Mapping[str, str] = os.environ) -> list[Item] | None:
    """The items of `lxgpu ls`; None: go the long way."""
    from lxgpu.config.kept import read_kept, stamp  # noqa: PLC0415 -- each import here is counted
    from lxgpu.drivers import lxd_peek  # noqa: PLC0415
    from lxgpu.inventory import peek  # noqa: PLC0415
    from lxgpu.services.idleviews import published_idle  # noqa: PLC0415
    from lxgpu.services.listing import instance_items, lost, public_host  # noqa: PLC0415

    folder = _state_dir(environ)
    known = read_kept(f"{folder}/{FILE}")
    if known is None or known["environ"] != _relevant(environ) or stamp(str(known["config"])) != known["stamp"]:
        return None
    if _news(folder, policy=known.get("policy"), pause=known.get("pause")):
        return None
    records = peek.peek(f"{folder}/{INVENTORY}", schema=known["schema"])
    sightings = None if records is None else lxd_peek.peek(known["socket"])
    if records is None or sightings is None or lost(records, sightings):
        return None
    host = public_host(known["address"], _listen(known["listen"]))
    return instance_items(records, sightings, host, idle=published_idle(folder))


def remember(
    *,
    state_dir: str,
    socket: str,
    project: str,
    address: str,
    listen: str,
    config: str,
    policy: str,
    pause: str,
    schema: int,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Leave behind what the short way needs to know; where that cannot be, the long way stays the only one.

    Args:
        state_dir: the inventory's folder, which is there already.
        socket: the engine's.
        project: the engine's project; the short way knows the default one only.
        address: what people type after `ssh`, as it was set.
        listen: the address listened on, as it was set.
        config: the path of the settings file, whether it is there or not.
        policy: the path of the policy file, likewise.
        pause: the path of the file that is there while the daemon is paused.
        schema: the number of the last migration of the inventory.
        environ: the variables that the settings were read under.
    """
    from pathlib import Path  # noqa: PLC0415

    from lxgpu.config.kept import keep, read_kept, stamp  # noqa: PLC0415

    seen = stamp(config)
    if seen is None or state_dir != _state_dir(environ) or project != "default":
        return
    values = {"socket": socket, "address": address, "listen": listen, "config": config, "schema": schema}
    values |= {"policy": policy, "pause": pause, "stamp": seen, "environ": _relevant(environ)}
    kept = Path(state_dir, FILE)
    before = read_kept(kept) or {}
    if any(before.get(name) != value for name, value in values.items()):
        keep(kept, **values)


def _news(folder: str, *, policy: object, pause: object) -> bool:
    """Whether there is something to say besides: a pause, or a policy file that is not the one in force."""
    from lxgpu.config.kept import read_kept, stamp  # noqa: PLC0415

    if not policy or not pause or os.path.lexists(str(pause)):
        return True
    kept = read_kept(f"{folder}/{POLICY}")
    there = stamp(str(policy))
    return bool(there != []) if kept is None else kept.get("stamp") != there or not there


def _state_dir(environ: Mapping[str, str]) -> str:
    """Where the inventory is, as far as that can be told without reading the settings."""
    return environ.get(STATE_VARIABLE) or STATE_DIR


def _relevant(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that may change what is listed."""
    return {name: value for name, value in environ.items() if name.startswith("LXGPU_") or name in _OTHERS}


def _listen(listen: str) -> str:
    """The address that is listened on; "every address" stands for the host's own, as in wiring."""
    from lxgpu.drivers.address import EVERY_ADDRESS, own_address  # noqa: PLC0415

    return own_address() if listen == EVERY_ADDRESS else listen
