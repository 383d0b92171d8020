"""What a daemon publishes of a lab with something of everything, for those who show it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from fakes.site import make_site, newcomer

from lxgpu.services.cardviews import GpuView, ProcessView
from lxgpu.services.daemonfigures import Figures
from lxgpu.services.overview import OperationView, ProblemView
from lxgpu.services.publish import published
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.statusfile import DaemonView, PauseView, PolicyState, Published
from lxgpu.services.views import IdleView, InstanceView

WRITTEN = "what somebody wrote"


def lively(folder: Path) -> Published:
    """Alice is idle on two cards, bob works on one, one is in quarantine, carol waits, a booking is to come."""
    site = make_site(folder, gpus=5)
    newcomer(site, "alice", gpus=2, lease_s=3600)
    newcomer(site, "bob", gpus=1, lease_s=7200)
    newcomer(site, "carol")
    found = published(site, _daemon(site.clock.now()))
    now = found.written_at
    first, second, third, stuck, free = found.gpus
    cards = (_at_work(first, 0), _at_work(second, 0), _at_work(third, 87), _stuck(stuck), free)
    under_way = OperationView("release", "bob", "stop", now - timedelta(seconds=40), "daemon")
    status = replace(
        found.status, operations=(under_way,), problems=(ProblemView("NVML", WRITTEN, "lxgpu doctor"),), at=now
    )
    return replace(
        found,
        status=status,
        gpus=cards,
        notes={stuck.uuid: WRITTEN},
        instances=tuple(_seen(one, found) for one in found.instances),
        reservations=(_wish("r-1", "request", "waiting", found), _wish("r-2", "booking", "scheduled", found)),
    )


def _daemon(now) -> DaemonView:
    figures = Figures()
    for seconds in (0.2, 0.3, 12.0):
        figures.ticked(seconds)
    figures.failed(["notices"])
    figures.event("refused")
    return DaemonView(
        running=True,
        pid=4711,
        started_at=now - timedelta(hours=3),
        ticked_at=now,
        next_at=now + timedelta(seconds=10),
        troubles=(WRITTEN,),
        paused=PauseView("root", WRITTEN, now),
        policy=PolicyState(ok=False, error=WRITTEN),
        figures=figures.view(failures={"notices": 1}),
    )


def _at_work(card: GpuView, percent: int) -> GpuView:
    process = ProcessView(pid=987_600 + percent, instance="bob", user="bob", memory_bytes=2**30)
    processes = (process,) if percent else ()
    verdict = "busy" if percent else "idle"
    return replace(
        card, utilization_percent=percent, processes=processes, verdict=verdict, memory_used_bytes=percent * 2**27
    )


def _stuck(card: GpuView) -> GpuView:
    slot = replace(card.slots[0], holder="dave", state="quarantined")
    return replace(card, slots=(slot,), health="quarantined", verdict="unknown", utilization_percent=None)


def _seen(one: InstanceView, found: Published) -> InstanceView:
    idle = {
        "alice": IdleView("idle", found.written_at - timedelta(hours=1)),
        "bob": IdleView("busy", found.written_at),
    }
    return replace(one, idle=idle.get(one.name, IdleView()))


def _wish(identifier: str, kind: str, state: str, found: Published) -> ReservationView:
    start = found.written_at + timedelta(hours=2)
    return ReservationView(
        id=identifier,
        instance="carol",
        kind=kind,
        gpus=2,
        model="*",
        host="host1",
        start=start,
        end=start + timedelta(hours=4),
        state=state,
        class_="normal",
        note=WRITTEN,
        position=1 if state == "waiting" else None,
    )
