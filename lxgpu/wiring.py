"""The real thing, put together from settings. Nobody else imports drivers.

Everything is made late: a command pays for what it uses.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lxgpu.config.profiles import Profile, load_profile
from lxgpu.config.settings import Settings, load_settings
from lxgpu.model.quota import Policy
from lxgpu.ports import Engine, Inventory, Progress
from lxgpu.services.site import Site

INVENTORY = "inventory.db"


def actor() -> str:
    """Who gives the command: the person behind sudo, or the account."""
    behind = os.environ.get("SUDO_USER")
    name = pwd.getpwuid(os.geteuid()).pw_name
    return f"{behind} (sudo)" if behind and behind != name else name


@cache
def settings() -> Settings:
    """The settings of this process, read once."""
    return load_settings()


def inventory(*, read_only: bool = False) -> Inventory:
    """The inventory; one that is only read is neither made nor migrated."""
    from lxgpu.inventory.store import open_inventory, open_readonly  # noqa: PLC0415

    path = settings().state_dir / INVENTORY
    return open_readonly(path) if read_only else open_inventory(path)


def engine() -> Engine:
    """The host's LXD or Incus."""
    from lxgpu.drivers.engine import LxdEngine  # noqa: PLC0415

    socket = settings().hosts[0].socket
    return LxdEngine(str(socket) if socket else None)


def site(say: Progress, *, read_only: bool = False) -> Site:
    """Everything a use case works with, on this host."""
    from lxgpu.drivers.login import ParamikoLogin  # noqa: PLC0415
    from lxgpu.drivers.probe import LocalProbe  # noqa: PLC0415
    from lxgpu.drivers.system import FileLocks, SystemClock  # noqa: PLC0415
    from lxgpu.drivers.texts import JinjaTexts  # noqa: PLC0415

    chosen, clock = settings(), SystemClock()
    return Site(
        host=chosen.hosts[0].name,
        engine=engine(),
        probe=LocalProbe(device_rule=chosen.device_rule),
        inventory=inventory(read_only=read_only),
        clock=clock,
        locks=FileLocks(chosen.run_dir / "locks", clock),
        login=ParamikoLogin(),
        texts=JinjaTexts(chosen.template_dirs),
        settings=chosen,
        policy=cache(lambda: _policy(chosen)),
        profile=cache(lambda name: load_profile(name, chosen)),
        nvidia=lambda profile: nvidia_config(profile, chosen),
        unix_groups=unix_groups,
        host_uid=host_uid,
        actor=actor(),
        say=say,
    )


def _policy(chosen: Settings) -> Policy:
    from lxgpu.config.policy import load_policy  # noqa: PLC0415

    return load_policy(chosen.policy_file)


@cache
def unix_groups(person: str) -> frozenset[str]:
    """The Unix groups of this host that a person is in; none for people without an account."""
    try:
        entry = pwd.getpwnam(person)
    except KeyError:
        return frozenset()
    return frozenset(_group_name(number) for number in os.getgrouplist(person, entry.pw_gid))


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def host_uid(person: str) -> int | None:
    """The account id a person has on this host, so that files in shared directories are theirs everywhere."""
    try:
        return pwd.getpwnam(person).pw_uid
    except KeyError:
        return None


def nvidia_config(profile: Profile, chosen: Settings) -> Mapping[str, str]:
    """The configuration that mounts the driver's libraries, where the host has a driver."""
    wanted = profile.nvidia if profile.nvidia != "auto" else chosen.nvidia
    there = Path("/proc/driver/nvidia/version").exists()
    if wanted == "off" or (wanted == "auto" and not there):
        return {}
    return {"nvidia.runtime": "true", "nvidia.driver.capabilities": "all"}
