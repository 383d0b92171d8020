"""A machine room that is looked at each second, with everything computed anew: slow, and plain enough to be right."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxgpu.simulate.jobs import Job


@dataclass
class Second:
    """One job as the oracle knows it."""

    job: Job
    number: int
    done: int = 0
    restart: int = 0
    place: dict[int, int] = field(default_factory=dict)
    first_start: int | None = None
    finish: int | None = None
    stops: int = 0
    began: int = 0  # which one of all starts its last one was

    @property
    def rest(self) -> int:
        """How long it must run still."""
        return int(self.job.duration_s) - self.done + self.restart


class Oracle:
    """Servers of one size, and one of the rules fifo, fifo-skip, sjf and srtf."""

    def __init__(self, rule: str, jobs: list[Job], servers: int, gpus: int) -> None:
        self.jobs = [Second(job, number) for number, job in enumerate(jobs)]
        self.rule, self.servers, self.gpus = rule, servers, gpus
        self.changed = list(range(servers))  # when each server last had another number of free cards
        self.changes = servers
        self.starts = 0

    def play(self) -> list[Second]:
        """All jobs that ever fit are done at the end."""
        fitting = [one for one in self.jobs if one.job.gpus <= self.servers * self.gpus]
        now = 0
        while any(one.finish is None for one in fitting):
            self._pass(now)
            asked = [one for one in fitting if one.job.submit_s <= now and one.finish is None]
            while self._one_more(now, asked):
                pass
            now += 1
        return self.jobs

    def _pass(self, now: int) -> None:
        for one in sorted(self.jobs, key=lambda one: one.began):
            if not one.place:
                continue
            if one.restart:
                one.restart -= 1
            else:
                one.done += 1
            if one.rest == 0:
                one.finish = now
                self._take_from(one)

    def _one_more(self, now: int, asked: list[Second]) -> bool:
        waiting = [one for one in asked if not one.place]
        by = {"sjf": lambda one: one.job.duration_s, "srtf": lambda one: one.rest}.get(self.rule, lambda _one: 0)
        for one in sorted(waiting, key=lambda one: (by(one), one.number)):
            place = self._place(one.job.gpus, [])
            if place is None and self.rule == "srtf":
                place = self._made(one)
            if place is not None:
                self._give(one, place, now)
                return True
            if self.rule in {"fifo", "sjf"}:
                return False
        return False

    def _made(self, one: Second) -> dict[int, int] | None:
        """A place for which as few are stopped as the rule says."""
        longer = [other for other in self.jobs if other.place and other.rest > one.rest]
        longer.sort(key=lambda other: (other.rest, other.number), reverse=True)
        fewest = [n for n in range(len(longer) + 1) if self._place(one.job.gpus, longer[:n]) is not None]
        if not fewest:
            return None
        victims = longer[: fewest[0]]
        for spared in victims[-2::-1]:
            without = [other for other in victims if other is not spared]
            if self._place(one.job.gpus, without) is not None:
                victims = without
        place = self._place(one.job.gpus, victims)
        for victim in victims:
            self._take_from(victim)
            victim.stops += 1
            victim.done -= victim.done % int(victim.job.checkpoint_s) if victim.job.checkpoint_s else victim.done
            victim.restart = int(victim.job.restart_s)
        return place

    def _place(self, gpus: int, without: list[Second]) -> dict[int, int] | None:
        taken = [one for one in self.jobs if one not in without]
        free = [self.gpus - sum(one.place.get(server, 0) for one in taken) for server in range(self.servers)]
        order = sorted(range(self.servers), key=lambda server: (free[server], self.changed[server]))
        empty = [server for server in order if free[server] == self.gpus]
        whole, rest = divmod(gpus, self.gpus)
        if len(empty) < whole:
            return None
        place = dict.fromkeys(empty[:whole], self.gpus)
        if rest:
            last = [server for server in order if free[server] >= rest and server not in place]
            if not last:
                return None
            place[last[0]] = rest
        return place

    def _give(self, one: Second, place: dict[int, int], now: int) -> None:
        self.starts += 1
        one.place, one.began = place, self.starts
        one.first_start = now if one.first_start is None else one.first_start
        self._note(place)

    def _take_from(self, one: Second) -> None:
        self._note(one.place)
        one.place = {}

    def _note(self, place: dict[int, int]) -> None:
        for server in place:
            self.changes += 1
            self.changed[server] = self.changes
