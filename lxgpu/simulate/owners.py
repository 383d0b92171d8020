"""How the owners of simulated jobs ask for cards under lxgpu: by a lease, a request in the queue, a booking ahead."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

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


AGAIN, LONGEST_S = 2, 10 * 365 * 86400
"""Who was cut off because the time was over asks for twice as much next time, and for no more than ten years."""

PATIENT = 1.5
"""Who is due after so many times what they ask for begins in the class of batch jobs, and books ahead."""


class Owners:
    """Each job's owner, who has a container for it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked = 0
        self._before_s: dict[str, float] = {}
        """How long each batch job asked for last: who asks again did not get done in that."""

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

    def request(self, name: str, item: Job, *, left_s: float, hold_s: float, now_s: float) -> Reservation:
        """What `lxgpu reserve` without a time writes down.

        `left_s` is how much longer a batch job needs, `hold_s` how much longer a holder wants its cards. A batch job that
        asks again had too little time: it asks for more than before, and for all that it still needs.
        """
        class_name = item.class_name or (USUAL if item.bursts or self._presses(item, left_s, now_s) else BATCH)
        row = Reservation(
            id=self._new_id("r"),
            instance=name,
            owner=item.owner,
            kind=Kind.REQUEST,
            gpus=item.gpus,
            state=ReservationState.WAITING,
            created_at=self._site.now,
            duration_s=max(1, int(hold_s if item.bursts else self._lasts_s(name, item, left_s))),
            class_name=class_name,
            soft=is_soft(self._site.policy, class_name),
        )
        self._site.write(row)
        return row

    def book(self, name: str, item: Job, *, left_s: float, now_s: float) -> tuple[int, tuple[Reservation, ...]] | None:
        """The latest start that keeps a deadline, as by `lxgpu reserve --at`: the host and the rows; None: nothing."""
        lasts_s = int(_asked_s(item, left_s))
        ahead_s = -1.0 if item.deadline_s is None else item.deadline_s - lasts_s - now_s
        if ahead_s <= 0:
            return None
        latest = self._site.now + timedelta(seconds=ahead_s)
        request = ReserveRequest(name, item.owner, item.gpus, lasts_s, latest, class_name=item.class_name or USUAL)
        identifier = self._new_id("b")
        for host in self._site.hosts:
            rows = decide_reserve(self._site.rehearse(host), request, identifier=identifier).rows
            if rows:
                self._site.write(*rows)
                return host, rows
        return None

    def _lasts_s(self, name: str, item: Job, left_s: float) -> float:
        lasts_s = _asked_s(item, left_s)
        before_s = self._before_s.get(name)
        if before_s is not None:
            whole_s = left_s + item.restart_s + item.checkpoint_s
            lasts_s = max(lasts_s, whole_s, min(AGAIN * before_s, LONGEST_S))
        self._before_s[name] = lasts_s
        return lasts_s

    def _presses(self, item: Job, left_s: float, now_s: float) -> bool:
        """Whether a deadline leaves no time to run where one yields and to run again."""
        return item.deadline_s is not None and item.deadline_s - now_s < PATIENT * _asked_s(item, left_s)

    def _new_id(self, letter: str) -> str:
        self._asked += 1
        return f"{letter}{self._asked:07}"


def _asked_s(item: Job, left_s: float) -> float:
    if item.deadline_s is not None:
        return left_s * DUE_MORE + DUE_MORE_S
    return item.asked_s or left_s * ASKED_MORE + ASKED_MORE_S
