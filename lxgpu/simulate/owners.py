"""How the owners of simulated jobs ask for cards under lxgpu: by a lease, a request in the queue, a booking ahead."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.plan import Verdict
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy.booking import is_soft
from lxgpu.policy.decide import decide_attach
from lxgpu.policy.reserve import decide_reserve
from lxgpu.simulate.jobs import Job
from lxgpu.simulate.site import Site
from lxgpu.simulate.usual import BATCH, USUAL

ASKED_MORE, ASKED_MORE_S = 1.5, 3600
"""Owners of batch jobs do not know how long it takes: they ask for half as much again, and an hour."""
DUE_MORE, DUE_MORE_S = 1.1, 600
"""Those who promised a deadline know it better: a tenth more, and ten minutes."""


class Owners:
    """Each job's owner, who has a container for it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked = 0

    def lease(self, name: str, item: Job, lasts_s: float) -> bool:
        """What `lxgpu attach` gives at once, where cards are free; whether it did."""
        site, request = self._site, GpuRequest(name, item.owner, item.gpus, class_name=item.class_name)
        until = site.now + timedelta(seconds=lasts_s)
        for host in site.hosts:
            plan = decide_attach(site.rehearse(host), request)
            if plan.decision is Verdict.GRANTED:
                desk = site.desk(host)
                for slot in plan.slots:
                    row = Assignment(f"l{name}-{slot}", slot, name, AssignmentState.ACTIVE, site.now)
                    desk.put(replace(row, class_name=item.class_name or USUAL, since=site.now, until=until))
                site.keep(desk)
                return True
        return False

    def request(self, name: str, item: Job, *, left_s: float, hold_s: float) -> Reservation:
        """What `lxgpu reserve` without a time writes down.

        `left_s` is how much longer a batch job needs, `hold_s` how much longer a holder wants its cards.
        """
        class_name = item.class_name or (BATCH if item.deadline_s is None and not item.bursts else USUAL)
        row = Reservation(
            id=self._new_id("r"),
            instance=name,
            owner=item.owner,
            kind=Kind.REQUEST,
            gpus=item.gpus,
            state=ReservationState.WAITING,
            created_at=self._site.now,
            duration_s=max(1, int(hold_s if item.bursts else _asked_s(item, left_s))),
            class_name=class_name,
            soft=is_soft(self._site.policy, class_name),
        )
        self._site.write(row)
        return row

    def book(self, row: Reservation, latest: datetime) -> tuple[int, tuple[Reservation, ...]] | None:
        """What `lxgpu reserve --at` gives beside a request that waits: the host and what was written; None: nothing."""
        request = ReserveRequest(row.instance, row.owner, row.gpus, row.duration_s, latest, class_name=row.class_name)
        identifier = self._new_id("b")
        for host in self._site.hosts:
            rows = decide_reserve(self._site.rehearse(host), request, identifier=identifier).rows
            if rows:
                self._site.write(*rows)
                return host, rows
        return None

    def _new_id(self, letter: str) -> str:
        self._asked += 1
        return f"{letter}{self._asked:07}"


def _asked_s(item: Job, left_s: float) -> float:
    if item.deadline_s is not None:
        return left_s * DUE_MORE + DUE_MORE_S
    return item.asked_s or left_s * ASKED_MORE + ASKED_MORE_S
