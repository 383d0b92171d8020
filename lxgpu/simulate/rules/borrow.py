"""Opportunistic use: cards that are held and idle work for those who wait, until their holder is back.

A batch job that waits works on cards that holders of one server have left idle for the policy's time: its owner asks to
borrow as soon as there is something. When a borrower stops, goes on and is ended says `policy/borrowing`, as for the
daemon; here all looks come at the right moment, and the holder's work is taken to stand still for `YIELD_S` where a
borrower was at work. One that is ended loses what it has not saved, and waits on. It is ended too when it gets cards of
its own, and when the holder loses the cards. All else is decided by the rule below, which does not know of borrowing:
who borrows waits in its queue all the same. Without a policy file every holder lends and every batch job may borrow.

Left out: memory (a borrower never needs what is kept for the holder).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lxgpu.model.quota import Policy
from lxgpu.model.rules import BorrowRules
from lxgpu.policy.borrowing import Glance, Move, next_move
from lxgpu.simulate.engine import Rule
from lxgpu.simulate.jobs import Job, Lab, Workload
from lxgpu.simulate.lending import LendingFloor
from lxgpu.simulate.never import WAITED, Telling
from lxgpu.simulate.rules.line import Fifo
from lxgpu.simulate.rules.ours import on
from lxgpu.simulate.usual import class_of

YIELD_S = 2.0
"""From the holder's first work to the borrower's stop, the most that is allowed."""
_MOMENT_S = 1e-6
"""Sums of seconds are not exact: who is to see that a time is over looks a moment later."""


class Lending:
    """A rule, and beside it the lending on of what its holders leave idle."""

    def __init__(self, floor: LendingFloor, rule: Rule, workload: Workload, policy: Policy | None) -> None:
        """`policy`: who lends and who may borrow, and after which times; everybody, after the usual ones, without."""
        self._floor, self.rule, self._policy = floor, rule, policy
        self._start = workload.start
        self._rules = policy.rules.sharing.borrow if policy else BorrowRules()
        self._waiting: dict[int, None] = {}
        self._lent_from: dict[int, float] = {}
        """Holders whose cards lie idle, and from when on they are lent."""

    def asked(self, job: int) -> None:
        """A batch job that fits into a server may borrow while it waits."""
        item = self._floor.jobs[job]
        if item.gpus <= self._floor.lab.gpus_per_server and self._borrows(item):
            self._waiting[job] = None
        self.rule.asked(job)

    def ended(self, job: int) -> None:
        """It waits no more, and its cards are nobody's to lend."""
        self._waiting.pop(job, None)
        self._lent_from.pop(job, None)
        self.rule.ended(job)

    def turned(self, job: int) -> None:
        """A holder that works has its cards alone; one that rests lends them after a while."""
        floor = self._floor
        if floor.working(job):
            self._lent_from.pop(job, None)
            mine = [one for one, loan in floor.loans.items() if job in loan.cards]
            if any(floor.loans[one].since is not None for one in mine):
                floor.hold_up(job, YIELD_S)
            for one in mine:
                self._look(one)
            if mine:
                floor.wake(floor.now + self._rules.yield_end_s + _MOMENT_S)
        elif floor.place[job]:
            self._rests(job)
        self.rule.turned(job)

    def decide(self) -> None:
        """The rule decides; then borrowers end, go on or begin."""
        self.rule.decide()
        for job in self._floor.moved:
            self._has_moved(job)
        self._floor.moved.clear()
        for job in [*self._floor.loans]:
            self._look(job)
        self._lend()

    def why_never(self, job: int) -> str:
        """As the rule says."""
        return self.rule.why_never(job) if isinstance(self.rule, Telling) else WAITED

    def _rests(self, job: int) -> None:
        if not self._lends(self._floor.jobs[job]):
            return
        at = self._floor.now + self._rules.idle_s + _MOMENT_S
        self._lent_from[job] = at
        self._floor.wake(at)

    def _has_moved(self, job: int) -> None:
        floor = self._floor
        if floor.jobs[job].bursts:
            self._lent_from.pop(job, None)
            if not floor.place[job]:
                for one in [one for one, loan in floor.loans.items() if job in loan.cards]:
                    floor.end_loan(one)
            elif not floor.working(job):
                self._rests(job)
        elif floor.place[job] or floor.finish[job] is not None:
            self._waiting.pop(job, None)
        elif self._borrows(floor.jobs[job]):
            self._waiting[job] = None

    def _look(self, job: int) -> None:
        floor = self._floor
        loan = floor.loans[job]
        works = any(map(floor.working, loan.cards))
        move, loan.standing = next_move(loan.standing, Glance(floor.now, work=works), self._rules)
        if move is Move.STOP:
            floor.freeze(job)
        elif move is Move.GO:
            floor.thaw(job)
        elif move is Move.END:
            floor.end_loan(job)
            self._waiting[job] = None

    def _borrows(self, job: Job) -> bool:
        """Whether a batch job's class may borrow."""
        if job.bursts or self._policy is None:
            return not job.bursts
        chosen = self._policy.classes.get(class_of(job, left_s=job.duration_s, now_s=job.submit_s))
        return chosen is not None and chosen.borrow

    def _lends(self, job: Job) -> bool:
        """Whether a holder's idle cards are lent on now."""
        if self._policy is None:
            return True
        now = self._start + timedelta(seconds=self._floor.now)
        return self._policy.entitlement(job.owner, self._policy.groups_of(job.owner, frozenset()), now).lend_idle

    def _lend(self) -> None:
        spare = self._spare()
        unfit: set[int] = set()
        for job in [*self._waiting] if spare else ():
            gpus = self._floor.jobs[job].gpus
            if gpus in unfit or job in self._floor.loans:
                continue
            cards = _chosen(spare, gpus)
            if cards is None:
                unfit.add(gpus)
                continue
            del self._waiting[job]
            self._floor.lend(job, cards)
            spare = self._spare()
            if not spare:
                return

    def _spare(self) -> dict[int, dict[int, int]]:
        """Of each server the holders whose idle cards could be lent now, and how many of each."""
        floor, found = self._floor, dict[int, dict[int, int]]()
        for holder, at in self._lent_from.items():
            place = floor.place[holder]
            if at <= floor.now and len(place) == 1:
                lent = sum(loan.cards.get(holder, 0) for loan in floor.loans.values())
                if place[0][1] > lent:
                    found.setdefault(place[0][0], {})[holder] = place[0][1] - lent
        return found


def _chosen(spare: dict[int, dict[int, int]], gpus: int) -> dict[int, int] | None:
    """So many cards of one server: of the holder with the fewest that has enough, else of as few holders as may be."""
    enough = ((cards, holder) for there in spare.values() for holder, cards in there.items() if cards >= gpus)
    best = min(enough, default=None)
    if best is not None:
        return {best[1]: gpus}
    for there in spare.values():
        if sum(there.values()) >= gpus:
            return dict(_largest_first(there, gpus))
    return None


def _largest_first(there: dict[int, int], gpus: int) -> Iterator[tuple[int, int]]:
    for holder, cards in sorted(there.items(), key=lambda item: (-item[1], item[0])):
        taken = min(cards, gpus)
        if taken:
            yield holder, taken
        gpus -= taken


def exclusive(workload: Workload, lab: Lab, _policy: Policy | None) -> tuple[LendingFloor, Lending]:
    """First come, first served; who has cards keeps them to the end, and lends them on."""
    floor = LendingFloor(workload.jobs, lab)
    return floor, Lending(floor, Fifo(floor), workload, None)


def ours(workload: Workload, lab: Lab, policy: Policy | None) -> tuple[LendingFloor, Lending]:
    """The policy of lxgpu, which takes idle cards back, and lending on besides."""
    floor = LendingFloor(workload.jobs, lab)
    return floor, Lending(floor, on(floor, workload, policy), workload, policy)
