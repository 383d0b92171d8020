"""A machine room where jobs may work on cards that stay their holders'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lxgpu.policy.borrowing import Standing
from lxgpu.simulate.floor import Floor, saved_s
from lxgpu.simulate.jobs import Job, Lab
from lxgpu.simulate.room import Place


@dataclass(slots=True)
class Loan:
    """Cards of holders (which job, how many) in the hands of a borrower who is at work since then, or stands still."""

    cards: Mapping[int, int]
    since: float | None
    standing: Standing = field(default=Standing(running=True))


class LendingFloor(Floor):
    """A floor where jobs may work on cards that stay their holders'; `places` are jobs that got or left own cards."""

    def __init__(self, jobs: Sequence[Job], lab: Lab) -> None:
        super().__init__(jobs, lab)
        self.borrowed_gpu_s: float = 0.0
        self.loans: dict[int, Loan] = {}
        """By the borrower."""
        self.moved: list[int] = []
        """Jobs that got cards of their own or left them, since the rule looked last."""

    def lend(self, job: int, cards: Mapping[int, int]) -> None:
        """A job begins, or goes on, on cards of others."""
        self.last_s = self.now
        self.loans[job] = Loan(cards, self.now)
        if self.first_start[job] is None:
            self.first_start[job] = self.now
        self._turn(job)
        self._switch(job)

    def freeze(self, job: int) -> None:
        """A borrower stands still; nothing is lost yet."""
        since, item, loan = self._since[job], self.jobs[job], self.loans[job]
        loan.since = None
        if since is None:
            return
        self.last_s = self.now
        ran = self.now - since
        loading = min(ran, self._restart[job])
        self.delivered_gpu_s += ran * item.gpus
        self.borrowed_gpu_s += ran * item.gpus
        self.lost_gpu_s += loading * item.gpus
        self._restart[job] -= loading
        self._done[job] += ran - loading
        self._since[job] = None
        self._mark[job] += 1
        self._switch(job)

    def thaw(self, job: int) -> None:
        """A borrower goes on where it stood."""
        self.loans[job].since = self.now
        self._turn(job)
        self._switch(job)

    def end_loan(self, job: int) -> None:
        """A borrower's process is gone: what it has not saved is lost, and it will have to load its work again."""
        self.freeze(job)
        del self.loans[job]
        item = self.jobs[job]
        kept = saved_s(self._done[job], item.checkpoint_s)
        self.lost_gpu_s += (self._done[job] - kept) * item.gpus
        self._done[job], self._restart[job] = kept, item.restart_s

    def hold_up(self, job: int, seconds: float) -> None:
        """A holder that has just begun to work gets on so much later."""
        self._mark[job] += 1
        self._restart[job] += seconds
        self._turn(job)

    def start(self, job: int, place: Place) -> None:
        """As a floor does; who has cards of its own borrows no more."""
        if job in self.loans:
            self.end_loan(job)
        super().start(job, place)
        self.moved.append(job)

    def _leave(self, job: int) -> None:
        if job in self.loans:  # done, on cards of others
            since = self.loans.pop(job).since
            self.borrowed_gpu_s += (self.now - (self.now if since is None else since)) * self.jobs[job].gpus
            self._switch(job)
        super()._leave(job)
        self.moved.append(job)

    def _switch(self, job: int) -> None:
        if self.switched is not None:
            self.switched.append(job)
