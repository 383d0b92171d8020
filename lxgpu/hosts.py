"""The hosts of the settings and the way to each; and this host as the others see it.

One inventory and one policy for all. Each host whose cards are lent has a `Site` of its own over its own rows, so what
is decided and done on one is what would be if there were no other, but for quotas, which count everywhere.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from lxgpu import wiring
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lxgpu.config.settings import HostSettings
    from lxgpu.model.instance import Instance
    from lxgpu.ports import Engine, HostProbe, Inventory, Progress
    from lxgpu.services.hostlooks import Place
    from lxgpu.services.hostviews import Neighbour
    from lxgpu.services.site import Site

LOOK_S = 15.0
"""How long a look at all hosts takes at the most, as some have to be connected to first."""


def hosts() -> tuple[Neighbour, ...]:
    """The hosts of the settings, this one first; nobody is asked before their probe is."""
    from lxgpu.services.draining import drains  # noqa: PLC0415
    from lxgpu.services.hostviews import Neighbour  # noqa: PLC0415

    others = wiring.settings().hosts[1:]
    meant, here = drains(wiring.settings().state_dir), wiring.host_name()
    far = (
        Neighbour(one.name, _way(one), partial(_local_or_far, one), _engine(one), meant.get(one.name)) for one in others
    )
    return Neighbour(here, "here", wiring.probe, drain=meant.get(here)), *far


def several() -> bool:
    """Whether cards are lent on more hosts than this one."""
    return len(wiring.settings().lending) > 1


def site(say: Progress, about: str = "", *, read_only: bool = False) -> Site:
    """Everything a use case works with, on the host where that is which it is about.

    `about` is a container, a card's UUID, a reservation or a person; what nobody knows is on this host.
    """
    if not several():
        return wiring.site(say, read_only=read_only)
    from lxgpu.model.onehost import home_of  # noqa: PLC0415

    whole = wiring.inventory(read_only=read_only)
    return _on(wiring.site(say, store=whole), whole, home_of(whole.read(), about, hosts=wiring.lending()))


def site_on(say: Progress, host: str, *, read_only: bool = False) -> Site:
    """The same on a host that is named; `any` and nothing are this one.

    Raises:
        LxgpuError: `not_found`: there is no such host, or its cards are not lent.
    """
    here = wiring.host_name()
    if host in {"", "any", here}:
        return wiring.site(say, read_only=read_only)
    if host not in wiring.lending():
        looked_at = host in {one.name for one in wiring.settings().hosts}
        why = f"cards are lent on {', '.join(wiring.lending())} only"
        why = f"{host} is only looked at: it has no socket in the settings" if looked_at else why
        raise LxgpuError("not_found", f"there is no host {host} to go to", why=why, fix=f"--host {here}, or --host any")
    whole = wiring.inventory(read_only=read_only)
    return _on(wiring.site(say, store=whole), whole, host)


def sites(say: Progress, person: str) -> tuple[Site, ...]:
    """The sites of all hosts on which a person has a container of their own."""
    if not several():
        return (wiring.site(say),)
    from lxgpu.model.onehost import hosts_of  # noqa: PLC0415

    whole = wiring.inventory()
    here = wiring.site(say, store=whole)
    return tuple(_on(here, whole, name) for name in hosts_of(whole.read(), person, hosts=wiring.lending()))


def everyone(say: Progress) -> tuple[Site, ...]:
    """The sites of all hosts whose cards are lent, this one first."""
    here = wiring.site(say)
    return here, *(Beside()(here) if several() else ())


class Beside:
    """The sites of all other hosts whose cards are lent, for a process that stays."""

    def __init__(self) -> None:
        self._here: Site | None = None
        self._others: tuple[Site, ...] = ()

    def __call__(self, here: Site) -> tuple[Site, ...]:
        """They; the same for the same site of this host, since they remember what they saw."""
        if self._here is not here:
            whole = wiring.inventory()
            quiet = replace(here, alive=lambda: None)  # a watchdog watches the turns, which go on without them
            self._here = here
            self._others = tuple(_on(quiet, whole, one.name) for one in wiring.settings().lending[1:])
        return self._others


def places(known: Mapping[str, str] | None = None) -> tuple[Place, ...]:
    """Each host whose cards are lent, this one first, for commands that only look; `known` as `wiring.probe` has it."""
    from lxgpu.services.hostlooks import Place  # noqa: PLC0415

    chosen = wiring.settings()
    here = Place(wiring.host_name(), wiring.watcher(), wiring.probe(known), chosen)
    others = chosen.lending[1:]
    return here, *(Place(one.name, wiring.watcher(one), _local_or_far(one), chosen.on(one)) for one in others)


def place_of(row: Instance) -> Place:
    """The host that a container lives on, for commands that only look."""
    found = places()
    return next((one for one in found if one.host == row.host), found[0])


def settings_of(row: Instance) -> HostSettings:
    """What the settings say of the host that a container lives on."""
    chosen = wiring.settings().lending
    return next((one for one in chosen[1:] if one.name == row.host), chosen[0])


def engine_of(row: Instance) -> Engine:
    """The engine of that host."""
    return wiring.engine(settings_of(row))


def _on(here: Site, whole: Inventory, host: str) -> Site:
    """The site of one of several hosts, made of this one's: its engine, its probe, its rows, and no memory yet."""
    if host == here.host:
        return here
    from lxgpu.drivers.kernel_log import NoKernelLog  # noqa: PLC0415
    from lxgpu.drivers.mig import NoSlicer  # noqa: PLC0415
    from lxgpu.services.cardmemory import CardMemory  # noqa: PLC0415
    from lxgpu.services.useline import UseLines  # noqa: PLC0415
    from lxgpu.services.watch import Watch  # noqa: PLC0415

    chosen = next(one for one in wiring.settings().lending if one.name == host)
    settings = wiring.settings().on(chosen)
    return replace(
        here,
        host=host,
        engine=wiring.engine(chosen),
        probe=_local_or_far(chosen, hasty=False),
        inventory=wiring.rows_here(whole, host),
        kernel_log=NoKernelLog(),
        slicer=NoSlicer() if chosen.elsewhere else here.slicer,
        settings=replace(settings, run_dir=settings.run_dir / "hosts" / host),
        watch=Watch(),
        cards=CardMemory(),
        use=UseLines(),
        watched=False,
    )


@cache
def _local_or_far(host: HostSettings, *, hasty: bool = True) -> HostProbe:
    """The probe of a host: another process or machine where the settings name one, else this one's."""
    return _probe(host, hasty=hasty) if host.elsewhere else wiring.probe()


def _engine(host: HostSettings) -> Callable[[], Engine] | None:
    return partial(wiring.watcher, host) if host.socket else None


def _way(host: HostSettings) -> str:
    return f"ssh {host.ssh}" if host.ssh else host.probe or host.socket


def serve(source: int, sink: int) -> None:
    """Answer for this host's probe on two open files, until the first ends."""
    from lxgpu.drivers.probe_serve import ProbeServer  # noqa: PLC0415

    ProbeServer(source, sink, wiring.probe).serve()


def _probe(host: HostSettings, *, hasty: bool) -> HostProbe:
    """The probe of another host; a hasty one, for commands that only look, answers in time or is unreachable."""
    from lxgpu.config.sshplace import ssh_place  # noqa: PLC0415
    from lxgpu.drivers.child import Child  # noqa: PLC0415
    from lxgpu.drivers.remote import ANSWER_S, RemoteProbe, Stream  # noqa: PLC0415
    from lxgpu.drivers.ssh import run_there  # noqa: PLC0415

    def connect() -> Stream:
        if not host.ssh:
            return Child(shlex.split(host.probe))
        place = ssh_place(host.ssh)
        command = host.probe or ("lxgpu probe" if place.user == "root" else "sudo -n lxgpu probe")
        return run_there(place.user, place.host, place.port, command, timeout_s=wiring.LOOK_S)

    return RemoteProbe(host.name, connect, answer_s=wiring.LOOK_S if hasty else ANSWER_S, hello_s=wiring.LOOK_S)
