"""The hosts as they are shown: asked side by side, each in time, and one that does not answer is unreachable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.errors import LxgpuError
from lxgpu.ports import Engine, HostProbe
from lxgpu.services.draining import Drain

UP = "up"
UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A host that is asked: `way` says how (`here`, `ssh root@gpu2.lab.example`, a command, or a socket).

    `engine` is that of another host whose cards are lent: without it, nothing there can be done or is known. `drain` is
    what is meant for it.
    """

    name: str
    way: str
    probe: Callable[[], HostProbe]
    engine: Callable[[], Engine] | None = None
    drain: Drain | None = None


@dataclass(frozen=True, slots=True)
class HostCard:
    """A card as NVML told of it; None is "not known"."""

    uuid: str
    index: int | None
    pci: str
    fault: str | None
    utilization_percent: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. `cards` is None where they are not known, `faulty` counts those that NVML cannot read.

    `error` says why the host is unreachable, or why its cards are not known; `fix` what to do. `drained_from` is when
    its cards are given to nobody any more.
    """

    name: str
    state: str
    way: str
    gpus: int | None = None
    faulty: int | None = None
    driver: str | None = None
    cards: tuple[HostCard, ...] | None = None
    error: str | None = None
    fix: str | None = None
    drained_from: datetime | None = None
    drain_note: str | None = None


def look_at_all(hosts: Sequence[Neighbour], *, within_s: float) -> tuple[HostView, ...]:
    """All of them in their order, after `within_s` at the latest."""
    found: dict[str, HostView] = {}

    def ask(host: Neighbour) -> None:
        found[host.name] = _look_at(host)

    asking = [threading.Thread(target=ask, args=(host,), name=f"lxgpu-host-{host.name}", daemon=True) for host in hosts]
    for one in asking:
        one.start()
    ends = time.monotonic() + within_s
    for one in asking:
        one.join(max(0.0, ends - time.monotonic()))
    late = f"it did not answer within {within_s:g} s"
    views = (found.get(host.name) or HostView(host.name, UNREACHABLE, host.way, error=late) for host in hosts)
    return tuple(_with_drain(view, host.drain) for view, host in zip(views, hosts, strict=True))


def _with_drain(view: HostView, drain: Drain | None) -> HostView:
    return replace(view, drained_from=drain.at, drain_note=drain.note) if drain else view


def _look_at(host: Neighbour) -> HostView:
    try:
        probe = host.probe()
        probe.boot_id()
        readings = probe.readings()
    except LxgpuError as error:
        told = "; ".join(error.why) or error.brief
        return HostView(host.name, UNREACHABLE, host.way, error=told, fix=error.fix or None)
    if readings.error:
        return HostView(
            host.name, UP, host.way, driver=readings.driver, error=readings.error, fix=f"lxgpu doctor, on {host.name}"
        )
    cards = tuple(
        HostCard(
            uuid=one.uuid,
            index=one.index,
            pci=one.pci,
            fault=one.fault,
            utilization_percent=one.utilization_percent,
            memory_used_bytes=one.memory_used_bytes,
            memory_total_bytes=one.memory_total_bytes,
        )
        for one in readings.items
    )
    faulty = sum(one.fault is not None for one in cards)
    view = HostView(host.name, UP, host.way, gpus=len(cards), faulty=faulty, driver=readings.driver, cards=cards)
    try:
        if host.engine is not None:
            host.engine().server()
    except LxgpuError as error:
        return replace(view, state=UNREACHABLE, error=error.brief, fix=error.fix or None)
    return view
