"""lxgpu itself: what happens on the floor becomes rows of a Snapshot, and what the policy decides happens on the floor.

Nothing is decided here. On which of several hosts a request is looked at first, and which one keeps cards for the
first in the queue, says `policy/routing`, which the daemon of one host has no use for yet. What the world adds: a batch
job is a throw-away container whose request stands in the queue; a holder's has a lease where cards are free, and else
stands in the queue too. A card that is taken is free `STOP_S` after the TERM, one that is given is attached at once,
and an owner whose cards are gone for good asks again.

A host is looked at when something happened there, and when its last decision said that there will be something. What
may begin behind a first in the queue only since time passed elsewhere begins with the next look of its host; a daemon
looks each few seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from heapq import heappop, heappush
from operator import itemgetter

from lxgpu.model.assignment import ATTACHED, Assignment, AssignmentState
from lxgpu.model.quota import Policy
from lxgpu.model.request import GpuRequest, Need
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.policy.admission import admit
from lxgpu.policy.agenda import work_out
from lxgpu.policy.desk import Agenda, Desk
from lxgpu.policy.handing import hand_over
from lxgpu.policy.routing import hosts_for
from lxgpu.policy.supply import soonest
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Lab, Workload
from lxgpu.simulate.kept import Kept
from lxgpu.simulate.never import LARGER, WAITED
from lxgpu.simulate.owners import Owners
from lxgpu.simulate.rest import Rest
from lxgpu.simulate.shares import owned_cards
from lxgpu.simulate.site import Site
from lxgpu.simulate.usual import class_of, usual_policy

STOP_S = 10.0
"""From TERM to a card that is proven free: a job that heeds TERM, and a fence that finds nothing."""
_Due = tuple[float, int, int, tuple[Assignment, ...]]
"""When a host is looked at again, in which order, which one, and what is free by then."""


class Ours:
    """The policy of lxgpu on a floor."""

    def __init__(self, floor: Floor, site: Site) -> None:
        self._floor, self.site, self._owners = floor, site, Owners(site)
        self._open: dict[int, set[str]] = {}
        self._looks: dict[int, None] = {}
        self._fresh: deque[Reservation] = deque()
        self._hopeful: list[Reservation] = []
        """Requests that may take from somebody as soon as time allows it: where that is best is asked again first."""
        self._due: list[_Due] = []
        self._order = 0
        self._rest, self._kept = Rest(floor, site), Kept(floor, site)

    # ---- what happens

    def asked(self, job: int) -> None:
        """A container is made; it gets a lease, or its request stands in the queue."""
        item = self._floor.jobs[job]
        if item.gpus > self._floor.lab.gpus_per_server:
            return  # no host has so many, as `why_never` says
        self.site.pass_to(self._floor.now)
        self.site.make(_name(job), item.owner)
        self._open[job] = set()
        if item.bursts and self._owners.lease(_name(job), item, self._hold_s(job)):
            self._begin(job)
            self._see(self.site.held(_name(job)))  # whose time will be over
        else:
            self._ask(job)

    def ended(self, job: int) -> None:
        """What it had is given back, and its container is gone."""
        self.site.pass_to(self._floor.now)
        self._rest.forget(job)
        self._give_back(self.site.held(_name(job)))  # with the container ends whatever is in it
        for identifier in self._open.pop(job, ()):
            row = self.site.reservation(identifier)
            if row is not None:
                self._close_asked(row, ReservationState.FINISHED)
        self.site.remove(_name(job))

    def turned(self, job: int) -> None:
        """A holder's cards went to work, or to rest: then they are idle after the policy's window."""
        self.site.pass_to(self._floor.now)
        rows = self.site.held(_name(job))
        self._rest.turned(job, [row.slot for row in rows])
        if self._floor.working(job):
            self._see(rows)

    def decide(self) -> None:
        """One look at each host where something happened."""
        self.site.pass_to(self._floor.now)
        while self._due and self._due[0][0] <= self._floor.now:
            _, _, host, rows = heappop(self._due)
            there = {row.id for name in {row.instance for row in rows} for row in self.site.held(name)}
            for row in rows:
                if row.id in there:
                    self.site.close(row, row.outcome)
            self._looks[host] = None
        for job in self._rest.over():
            mine = self.site.held(_name(job))
            self._rest.idle(row.slot for row in mine)
            self._see(mine)
        if self._looks and self._hopeful:
            hopeful, self._hopeful = self._hopeful, []
            for asked in hopeful:
                if self.site.waits(asked.id):
                    self._place(asked, again=True)
        while self._fresh or self._looks:
            if self._looks:
                host = next(iter(self._looks))
                del self._looks[host]
                self._look(host)
            else:
                self._place(self._fresh.popleft())

    def why_never(self, job: int) -> str:
        """Why a job never began: it fits on no host, or the policy refuses it also when nobody has any cards."""
        item = self._floor.jobs[job]
        if item.gpus > self._floor.lab.gpus_per_server:
            return LARGER
        class_name = class_of(item, left_s=item.duration_s, now_s=self._floor.now)
        request = GpuRequest(_name(job), item.owner, more=item.gpus, class_name=class_name)
        refused = admit(self.site.snapshot(0), request)
        return refused[0].code if refused else WAITED

    # ---- owners

    def _ask(self, job: int) -> None:
        floor, hold_s = self._floor, self._hold_s(job)
        times = {"left_s": floor.left_s(job), "hold_s": hold_s, "now_s": floor.now}
        row = self._owners.request(_name(job), floor.jobs[job], **times)
        self._open[job].add(row.id)
        self._fresh.append(row)

    def _ask_again(self, job: int) -> None:
        """Who has lost cards for good gives the others back, and asks for all of them again.

        Those that are being taken are free when they are proven to be, not before.
        """
        if self._open.get(job, True) or self._floor.place[job] or self._floor.finish[job] is not None:
            return
        self._give_back(row for row in self.site.held(_name(job)) if row.state is not AssignmentState.RELEASING)
        self._ask(job)

    def _give_back(self, rows: Iterable[Assignment]) -> None:
        for row in rows:
            self.site.close(row, "given back")
            self._looks[self.site.server(row.slot)] = None

    def _close_asked(self, row: Reservation, state: ReservationState) -> None:
        """A request or a booking is over; where it was to begin others may be served now."""
        self.site.close_asked(row, state)
        if host := row.host or self.site.shadows.get(row.id):
            self._looks[self.site.number(host)] = None

    def _hold_s(self, job: int) -> float:
        """How much longer a holder wants its cards."""
        begun = self._floor.first_start[job]
        return self._floor.jobs[job].duration_s - (0.0 if begun is None else self._floor.now - begun)

    # ---- looking

    def _place(self, row: Reservation, *, again: bool = False) -> None:
        """A new request is looked at where it may be met; elsewhere it changes nothing."""
        site = self.site
        at = soonest(site.now, site.policy)
        until = at + timedelta(seconds=row.duration_s)
        need = Need(row.instance, row.owner, row.gpus, row.class_name, at, until, reservation=row.id)
        route = hosts_for([site.snapshot(host) for host in site.hosts], need)
        for host in (*route.now, *(() if again else route.later)):
            self._look(host)
            if not site.waits(row.id):
                return
        if route.later:
            self._hopeful.append(row)
        if not again:
            self._book(_job(row.instance))

    def _book(self, job: int) -> None:
        """Who has a deadline books the latest start that keeps it, in case that the cards do not come before."""
        left_s = self._floor.left_s(job)
        found = self._owners.book(_name(job), self._floor.jobs[job], left_s=left_s, now_s=self._floor.now)
        if found is not None:
            host, rows = found
            self._open[job].update(one.id for one in rows)
            self._looks[host] = None

    def _look(self, host: int) -> None:
        desk = self.site.desk(host)
        work_out(desk)
        for giving in desk.givings:
            for held in desk.held_by(giving.instance):
                if held.state is AssignmentState.ATTACHING:
                    desk.put(replace(held, state=AssignmentState.ACTIVE))
        if desk.givings:
            hand_over(desk)  # what is attached begins
        self.site.keep(desk)
        self._carry_out(host, desk)
        self._looks.update(dict.fromkeys(self._kept.no_more()))
        self._looks.update(dict.fromkeys(self._kept.keep_for(desk.first)))

    def _carry_out(self, host: int, desk: Desk) -> None:
        agenda = desk.agenda()
        lost = [_job(taking.instance) for taking in agenda.takings]
        for row in agenda.rows:
            if isinstance(row, Reservation) and (mine := self._open.get(_job(row.instance))) is not None:
                if row.open:
                    mine.add(row.id)
                else:
                    mine.discard(row.id)
                    lost.append(_job(row.instance))
        for taking in agenda.takings:
            self._end_work(_job(taking.instance), taken=len(taking.slots))
            self._book(_job(taking.instance))
            rows = tuple(row for row in self.site.held(taking.instance) if row.slot in taking.slots)
            self._wake(host, self._floor.now + STOP_S, rows)
        for giving in agenda.givings:
            self._begin(_job(giving.instance))
        if _goes_on(desk, agenda):
            self._looks[host] = None
        for job in dict.fromkeys(lost):
            self._ask_again(job)
        if agenda.next_at is not None:
            self._wake(host, self.site.seconds(agenda.next_at))

    def _wake(self, host: int, at: float, rows: tuple[Assignment, ...] = ()) -> None:
        self._order += 1
        heappush(self._due, (at, self._order, host, rows))
        self._floor.wake(at)

    # ---- work

    def _begin(self, job: int) -> None:
        """A job goes on once it has all its cards on one host; what it has left on another it gives back."""
        held = [row for row in self.site.held(_name(job)) if row.state in ATTACHED]
        by_host = Counter(self.site.server(row.slot) for row in held)
        host, most = max(by_host.items(), key=itemgetter(1))
        if most < self._floor.jobs[job].gpus or self._floor.place[job]:
            return
        rows = [row for row in held if self.site.server(row.slot) == host]
        self._floor.start(job, ((host, len(rows)),))
        self._give_back(row for row in held if row not in rows)
        self._settle(job)
        self.site.works(row.slot for row in rows)
        self._rest.turned(job, [row.slot for row in rows])
        self._join(host, job)

    def _settle(self, job: int) -> None:
        """Who has all cards wants no more."""
        for identifier in self._open[job]:
            row = self.site.reservation(identifier)
            if row is not None and row.state in {ReservationState.WAITING, ReservationState.SCHEDULED}:
                self._close_asked(row, ReservationState.CANCELLED)

    def _end_work(self, job: int, taken: int) -> None:
        if self._floor.place[job]:
            host = self._floor.place[job][0][0]
            self._floor.stop(job, taken)
            self._join(host, job)
            # What it keeps of its cards does nothing until it has them all again.
            self._rest.turned(job, [row.slot for row in self.site.held(_name(job))])
        else:
            self._floor.take_more(job, taken)

    def _join(self, host: int, job: int) -> None:
        if self._floor.jobs[job].gpus > 1:
            there = {_job(row.instance) for row in self.site.on(host)}
            work = (one for one in there if self._floor.place[one] and self._floor.jobs[one].gpus > 1)
            self.site.join(host, {_name(one): one + 1 for one in work})

    def _see(self, rows: Iterable[Assignment]) -> None:
        for row in rows:
            self._looks[self.site.server(row.slot)] = None


def ours(workload: Workload, lab: Lab, policy: Policy | None) -> tuple[Floor, Ours]:
    """The policy; without one each group is guaranteed what it owns."""
    floor = Floor(workload.jobs, lab)
    return floor, on(floor, workload, policy)


def on(floor: Floor, workload: Workload, policy: Policy | None) -> Ours:
    """As `ours`, on a floor that is there."""
    rules = policy or usual_policy(workload, floor.lab, owned_cards(workload, floor.lab))
    return Ours(floor, Site(floor.lab, rules, workload.start))


def _goes_on(desk: Desk, agenda: Agenda) -> bool:
    """Whether a decision leaves something to decide at once: a start given up, a second one of who was given cards."""
    asked = (row for giving in agenda.givings for row in desk.asked_by(giving.instance))
    return any(row.state is ReservationState.PREPARING for row in asked) or any(
        isinstance(row, Reservation) and row.state is ReservationState.FAILED for row in agenda.rows
    )


def _name(job: int) -> str:
    return f"j{job:07}"


def _job(name: str) -> int:
    return int(name[1:])
