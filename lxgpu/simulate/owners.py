"""How the owners of simulated jobs ask for cards under lxgpu: by a lease, a request in the queue, a booking ahead."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import ceil

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.plan import Verdict
from lxgpu.model.request import GpuRequest, Need, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.policy.booking import is_soft
from lxgpu.policy.decide import decide_attach
from lxgpu.policy.lease import lease_until
from lxgpu.policy.reserve import decide_reserve
from lxgpu.policy.routing import hosts_for
from lxgpu.simulate.jobs import Job
from lxgpu.simulate.site import Site, lasting
from lxgpu.simulate.usual import asked_s, class_ahead, class_of

AGAIN, LONGEST_S = 2, 10 * 365 * 86400
"""Who was cut off because the time was over asks for twice as much next time, and for no more than ten years."""


class Owners:
    """Each job's owner, who has a container for it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._asked = 0
        self._before_s: dict[str, float] = {}
        """How long each batch job asked for last: who asks again did not get done in that."""

    def lease(self, name: str, item: Job, lasts_s: float) -> bool:
        """What `lxgpu attach` gives at once, where cards are free; whether it did."""
        site, class_name = self._site, class_of(item, left_s=lasts_s, now_s=self._site.seconds(self._site.now))
        request = GpuRequest(name, item.owner, item.gpus, class_name=class_name)
        wanted = site.now + lasting(lasts_s)
        for host in self._by_room(Need(name, item.owner, item.gpus, class_name, site.now, wanted)):
            seen = site.rehearse(host)
            plan = decide_attach(seen, request)
            if plan.decision is Verdict.GRANTED:
                until = min(wanted, lease_until(seen, request, plan.slots))
                desk = site.desk(host)
                for slot in plan.slots:
                    row = Assignment(f"l{name}-{slot}", slot, name, AssignmentState.ACTIVE, site.now)
                    desk.put(replace(row, class_name=class_name, since=site.now, until=until))
                site.keep(desk)
                return True
        return False

    def request(self, name: str, item: Job, *, left_s: float, hold_s: float, now_s: float) -> Reservation:
        """What `lxgpu reserve` without a time writes down.

        `left_s` is how much longer a batch job needs, `hold_s` how much longer a holder wants its cards. A batch job
        that asks again had too little time: it asks for more than before, and for all that it still needs.
        """
        class_name = class_of(item, left_s=left_s, now_s=now_s)
        row = Reservation(
            id=self._new_id("r"),
            instance=name,
            owner=item.owner,
            kind=Kind.REQUEST,
            gpus=item.gpus,
            state=ReservationState.WAITING,
            created_at=self._site.now,
            duration_s=max(1, ceil(hold_s if item.bursts else self._lasts_s(name, item, left_s))),
            class_name=class_name,
            soft=is_soft(self._site.policy, class_name),
        )
        self._site.write(row)
        return row

    def book(self, name: str, item: Job, *, left_s: float, now_s: float) -> tuple[int, tuple[Reservation, ...]] | None:
        """The latest start that keeps a deadline, as by `lxgpu reserve --at`: the host and the rows; None: nothing."""
        lasts_s, class_name = int(asked_s(item, left_s)), class_ahead(item)
        ahead_s = -1.0 if item.deadline_s is None else item.deadline_s - lasts_s - now_s
        if ahead_s <= 0:
            return None
        latest = self._site.now + timedelta(seconds=ahead_s)
        request = ReserveRequest(name, item.owner, item.gpus, lasts_s, latest, class_name=class_name)
        need = Need(name, item.owner, item.gpus, class_name, latest, latest + timedelta(seconds=lasts_s))
        identifier = self._new_id("b")
        for host in self._by_room(need):
            rows = decide_reserve(self._site.rehearse(host), request, identifier=identifier).rows
            if rows:
                self._site.write(*rows)
                return host, rows
        return None

    def _lasts_s(self, name: str, item: Job, left_s: float) -> float:
        lasts_s = asked_s(item, left_s)
        before_s = self._before_s.get(name)
        if before_s is not None:
            whole_s = left_s + item.restart_s + item.checkpoint_s
            lasts_s = max(lasts_s, whole_s, min(AGAIN * before_s, LONGEST_S))
        self._before_s[name] = lasts_s
        return lasts_s

    def _by_room(self, need: Need) -> list[int]:
        """All hosts, first those that have the cards for it now and disturb least, as of the last desk."""
        hosts = self._site.hosts
        first = hosts_for([self._site.snapshot(host) for host in hosts], need).now
        return [*first, *(host for host in hosts if host not in first)]

    def _new_id(self, letter: str) -> str:
        self._asked += 1
        return f"{letter}{self._asked:07}"
