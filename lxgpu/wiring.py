"""The real thing, put together from settings. Nobody else imports drivers.

Everything is made late: a command pays for what it uses.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.config.settings import PAGE_FOLDER, HostSettings, Settings, load_settings

if TYPE_CHECKING:
    from lxgpu.config.profiles import Profile
    from lxgpu.drivers.relay import PipeRelay
    from lxgpu.model.quota import Policy
    from lxgpu.ports import Call, Engine, HostProbe, Inventory, Progress, Texts
    from lxgpu.services.doctor import Ground
    from lxgpu.services.site import Site

INVENTORY = "inventory.db"
LOOK_S = 8.0
PAGE_GROUP = "lxgpu-web"
"""Whose members may come to the page's door: the account that `lxgpu web` runs as."""


def actor() -> str:
    """Who gives the command: the person behind sudo, or the account."""
    behind = os.environ.get("SUDO_USER")
    name = pwd.getpwuid(os.geteuid()).pw_name
    return f"{behind} (sudo)" if behind and behind != name else name


@cache
def _written_settings() -> Settings:
    return load_settings()


@cache
def settings() -> Settings:
    """The settings of this process, read once, with the host's own address where every one was meant."""
    from lxgpu.drivers.address import EVERY_ADDRESS, own_address  # noqa: PLC0415

    chosen = _written_settings()
    if chosen.network.listen != EVERY_ADDRESS:
        return chosen
    return replace(chosen, network=replace(chosen.network, listen=own_address()))


def caller() -> str:
    """The account that calls: the person behind sudo, or this process's own."""
    return os.environ.get("SUDO_USER") or pwd.getpwuid(os.geteuid()).pw_name


def client(
    kind: str, name: str, words: Sequence[str], *options: str, host: HostSettings | None = None
) -> tuple[list[str], dict[str, str]]:
    """The engine's own client for a program on a terminal, and its environment; on this host if none is named."""
    host = host or settings().hosts[0]
    program, variable = ("incus", "INCUS_SOCKET") if kind == "incus" else ("lxc", "LXD_DIR")
    where = host.socket if kind == "incus" else str(Path(host.socket).parent)
    argv = [program, "exec", name, "--project", host.project, "--mode", "interactive", *options, "--", *words]
    return argv, {**os.environ, **({variable: where} if host.socket else {})}


def relay() -> PipeRelay:
    """This process's streams and signals, for programs inside."""
    from lxgpu.drivers.relay import PipeRelay  # noqa: PLC0415

    def on_terminal(call: Call) -> tuple[list[str], dict[str, str]]:
        given = [word for name, value in call.environment.items() for word in ("--env", f"{name}={value}")]
        return client(engine().server().kind, call.name, call.words, "--cwd", call.folder, *given)

    return PipeRelay(on_terminal)


def host_name() -> str:
    """What this host is called in the inventory."""
    return settings().hosts[0].name or os.uname().nodename


def lending() -> tuple[str, ...]:
    """The names of the hosts whose cards are lent, this one first."""
    return host_name(), *(one.name for one in settings().lending[1:])


def inventory(*, read_only: bool = False) -> Inventory:
    """The inventory; one that is only read is neither made nor migrated.

    A new one is made for an LXD that answers: whatever is to go into it is asked of that first.
    """
    from lxgpu.inventory.store import open_inventory, open_readonly  # noqa: PLC0415

    path = settings().state_dir / INVENTORY
    if not read_only and not path.exists():
        engine().server()
    return open_readonly(path) if read_only else open_inventory(path)


def rows_here(whole: Inventory, host: str) -> Inventory:
    """The inventory as one of several hosts sees it."""
    from lxgpu.inventory.onehost import OneHost  # noqa: PLC0415

    return OneHost(whole, host, hosts=lending())


def empty_site(say: Progress) -> Site:
    """The site over an empty inventory: for what only looks at LXD, whatever there is of a file."""
    from lxgpu.inventory.memory import MemoryInventory  # noqa: PLC0415

    return site(say, store=MemoryInventory())


def engine(host: HostSettings | None = None) -> Engine:
    """The LXD or Incus of a host, of this one if left out."""
    from lxgpu.drivers.engine import LxdEngine  # noqa: PLC0415

    return LxdEngine((host or settings().hosts[0]).socket or None)


@cache
def watcher(host: HostSettings | None = None) -> Engine:
    """The same for commands that only look: one that does not answer holds them up for `LOOK_S`, and once."""
    from lxgpu.drivers.engine import LxdEngine  # noqa: PLC0415

    return LxdEngine((host or settings().hosts[0]).socket or None, timeout_s=LOOK_S, hasty=True)


def probe(known: Mapping[str, str] | None = None) -> HostProbe:
    """NVML, /proc and cgroups of this host; `known` are the cards remembered, UUID by PCI address."""
    from lxgpu.drivers.probe import LocalProbe  # noqa: PLC0415

    return LocalProbe(known=lambda: known or {}, device_rule=settings().device_rule)


def texts() -> Texts:
    """The templates: the lab's own, the shipped ones behind them."""
    from lxgpu.config.shipped import shipped  # noqa: PLC0415
    from lxgpu.drivers.texts import JinjaTexts  # noqa: PLC0415

    return JinjaTexts((settings().templates, shipped("templates")))


def remember_for_ls() -> None:
    """Leave behind what `lxgpu ls` needs to go the short way next time; see `lxgpu.quick`."""
    from lxgpu import quick  # noqa: PLC0415
    from lxgpu.config.settings import FLAGS  # noqa: PLC0415
    from lxgpu.drivers.lxd_socket import find_socket  # noqa: PLC0415
    from lxgpu.inventory.migrations import known  # noqa: PLC0415

    chosen, host = _written_settings(), _written_settings().hosts[0]
    if FLAGS or len(chosen.lending) > 1:  # settings of this one run are not those of the next; the way knows one LXD
        return
    if not (chosen.state_dir / INVENTORY).exists():
        return
    quick.remember(
        state_dir=str(chosen.state_dir),
        socket=host.socket or find_socket(),
        project=host.project,
        address=chosen.network.address,
        listen=chosen.network.listen,
        config=str(chosen.config),
        policy=str(chosen.policy),
        pause=str(chosen.run_dir / "paused"),
        schema=len(known()),
    )


def warm() -> None:
    """Import in the background what a change will need in a moment, while LXD is being asked what there is."""
    import threading  # noqa: PLC0415
    from contextlib import suppress  # noqa: PLC0415
    from importlib import import_module  # noqa: PLC0415

    def load() -> None:
        for name in ("pylxd", "paramiko", "jinja2"):
            with suppress(Exception):  # whoever needs it imports it again, and hears what is wrong
                import_module(name)

    threading.Thread(target=load, daemon=True).start()


def site(say: Progress, *, read_only: bool = False, store: Inventory | None = None) -> Site:
    """Everything a use case works with, on this host; `store` in the place of its inventory."""
    from lxgpu.drivers.board import FolderBoard  # noqa: PLC0415
    from lxgpu.drivers.brake import FreezerBrake  # noqa: PLC0415
    from lxgpu.drivers.kernel_log import LocalKernelLog  # noqa: PLC0415
    from lxgpu.drivers.login import ParamikoLogin  # noqa: PLC0415
    from lxgpu.drivers.mig import NvmlSlicer  # noqa: PLC0415
    from lxgpu.drivers.notify import ChannelNotifier  # noqa: PLC0415
    from lxgpu.drivers.parking import CudaCheckpoint  # noqa: PLC0415
    from lxgpu.drivers.registries import host_registries  # noqa: PLC0415
    from lxgpu.drivers.system import FileLocks, SystemClock  # noqa: PLC0415
    from lxgpu.services.site import Site  # noqa: PLC0415

    chosen, clock, host = settings(), SystemClock(), probe()
    whole = inventory(read_only=read_only) if store is None else store
    return Site(
        host=host_name(),
        engine=engine(),
        probe=host,
        inventory=whole if len(chosen.lending) == 1 else rows_here(whole, host_name()),
        clock=clock,
        locks=FileLocks(chosen.run_dir / "locks", clock),
        login=ParamikoLogin(),
        texts=texts(),
        notify=ChannelNotifier((one.kind, one.to, one.sender) for one in chosen.channels),
        board=FolderBoard(guest_folder),
        parker=CudaCheckpoint(),
        brake=FreezerBrake(),
        slicer=NvmlSlicer(chosen.proc),
        kernel_log=LocalKernelLog(chosen.kernel_log, memory=chosen.run_dir / "kernel-log.json", boot_id=host.boot_id),
        settings=chosen,
        policy=cache(lambda: policy(say)),
        profile=cache(profile),
        nvidia=lambda profile: nvidia_config(profile, chosen),
        guest=guest_folder,
        unix_groups=unix_groups,
        host_uid=host_uid,
        actor=actor(),
        say=say,
        registries=host_registries,
    )


def profile(name: str) -> Profile:
    """A profile, with the resource limits that this host can give."""
    from lxgpu.config.profiles import load_profile  # noqa: PLC0415
    from lxgpu.drivers.ulimits import within_reach  # noqa: PLC0415

    chosen = settings()
    found = load_profile(name, chosen.profiles, kept=chosen.state_dir / "profiles" / f"{name}.json")
    return replace(found, config=within_reach(found.config))


def policy(say: Progress) -> Policy:
    """The policy in force: the file, or the last good one while the file is broken, which is said."""
    from lxgpu.config.inforce import policy_in_force  # noqa: PLC0415

    chosen = settings()
    found = policy_in_force(chosen.policy, kept=chosen.state_dir / "policy.json")
    if found.broken is not None:
        say(f"the policy file has mistakes, so the last good one holds (lxgpu policy check): {found.broken.brief}")
    return found.policy


def guest_folder(name: str) -> str:
    """The folder of this host that a container sees as /var/lib/lxgpu; on disk, since /run is empty after a boot."""
    folder = settings().state_dir / "guests" / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # everybody inside reads it, whatever the umask of who makes it
    folder.parent.chmod(0o700)  # a container's own socket lies there, which no user of this host may reach
    return str(folder)


def page_folder() -> str:
    """The folder of the socket that the page's process comes through: for its group, where there is one, else root's.

    Raises:
        LxgpuError: `inventory_storage`, `not_allowed`: it cannot be made.
    """
    from lxgpu.errors import cannot_write  # noqa: PLC0415

    folder = settings().run_dir / PAGE_FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.chown(folder, -1, grp.getgrnam(PAGE_GROUP).gr_gid)
            folder.chmod(0o750)
        except KeyError:
            folder.chmod(0o700)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return str(folder)


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


def ground(say: Progress) -> Ground:
    """What a check-up asks; nothing is made, migrated or opened before it is asked for."""
    from lxgpu.config.inforce import policy_in_force  # noqa: PLC0415
    from lxgpu.drivers.hostfacts import LocalSetup  # noqa: PLC0415
    from lxgpu.services.doctor import Ground  # noqa: PLC0415

    return Ground(
        setup=LocalSetup(),
        settings=settings,
        engine=engine,
        probe=probe,
        site=lambda read_only: _site_to_check(say, read_only=read_only),
        policy=lambda: policy_in_force(settings().policy, kept=settings().state_dir / "policy.json"),
        database=database_there,
    )


def _site_to_check(say: Progress, *, read_only: bool) -> Site:
    """The site as it is; over an empty inventory where there is no file yet, which is not made by looking."""
    if read_only and not (settings().state_dir / INVENTORY).exists():
        return empty_site(say)
    return site(say, read_only=read_only)


def database_there() -> bool:
    """Whether there is an inventory; error `inventory_damaged` and others when it is not sound."""
    from lxgpu.inventory.store import open_readonly  # noqa: PLC0415

    path = settings().state_dir / INVENTORY
    if not path.exists():
        return False
    with open_readonly(path) as opened:
        opened.check()
    return True
