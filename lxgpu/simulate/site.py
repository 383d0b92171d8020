"""What lxgpu's policy sees of a simulated lab: hosts, containers, the tables, use. The state is one set of Records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from operator import is_

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.gpu import Gpu, GpuProcess, Reading, Readings, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import IdleVerdict, Use
from lxgpu.policy.desk import Desk
from lxgpu.policy.fairness import looks_back_s
from lxgpu.policy.lookup import (
    by_card,
    by_instance,
    by_reservation,
    owners_by_instance,
    promised_to,
    reservations_by_id,
    with_instance,
    without_instance,
)
from lxgpu.policy.past import with_end
from lxgpu.policy.tally import recount
from lxgpu.simulate.jobs import Lab

MODEL = "GPU"
_OFTEN = 256
"""After so many closed assignments those that count for nothing any more are left behind."""


class Site:
    """Hosts by number, containers by name. What is written waits for the next desk, and is kept from there."""

    def __init__(self, lab: Lab, policy: Policy, start: datetime) -> None:
        self.policy, self._start = policy, start
        self._seen = [_host(number, lab.gpus_per_server, start) for number in range(lab.servers)]
        self._server = {gpu.uuid: number for number, seen in enumerate(self._seen) for gpu in seen.gpus}
        self._number = {seen.host: number for number, seen in enumerate(self._seen)}
        self._records = Records(version=1, identity=None)
        self._past: tuple[Assignment, ...] = ()
        self._new_past = 0
        self._back = timedelta(seconds=looks_back_s(policy))
        self._verdicts: dict[Slot, IdleVerdict] = {}
        self._judged = object()  # another one whenever a verdict is
        self._shown: dict[int, tuple[tuple[object, ...], Snapshot]] = {}
        self._written: list[Assignment | Reservation] = []
        self._dropped: list[Assignment] = []
        self.now = start
        self.shadows: dict[str, str] = {}
        """On which host cards are kept for those who wait, by reservation."""

    @property
    def hosts(self) -> range:
        """Their numbers."""
        return range(len(self._seen))

    def pass_to(self, seconds: float) -> None:
        """It is so many seconds after the start."""
        self.now = self._start + lasting(seconds)

    def seconds(self, at: datetime) -> float:
        """How long after the start that is."""
        return (at - self._start).total_seconds()

    def server(self, slot: Slot) -> int:
        """The host of a slot."""
        return self._server[slot.gpu]

    def number(self, name: str) -> int:
        """The host of that name."""
        return self._number[name]

    # ---- containers

    def make(self, name: str, owner: str) -> None:
        """A container is there."""
        made = Instance(name, owner, "", InstanceState.READY, self.now)
        self._change(instances=with_instance(self._records.instances, made))

    def remove(self, name: str) -> None:
        """A container is gone; what it had counts no more for its owner."""
        rows = self._records.assignments
        had = (*by_instance(rows).get(name, ()), *promised_to(rows).get(name, ()))
        self._change(had, instances=without_instance(self._records.instances, name))

    def held(self, name: str) -> list[Assignment]:
        """What a container has, as of the last desk; what was closed since then it has no more."""
        rows = by_instance(self._records.assignments).get(name, ())
        return [row for row in rows if row not in self._dropped] if self._dropped else list(rows)

    def on(self, host: int) -> list[Assignment]:
        """What is held of a host's cards, as of the last desk."""
        had = by_card(self._records.assignments)
        return [row for gpu in self._seen[host].gpus for row in had.get(gpu.uuid, ()) if row.live]

    def reservation(self, identifier: str) -> Reservation | None:
        """An open reservation, as of the last desk."""
        return reservations_by_id(self._records.reservations).get(identifier)

    def waits(self, identifier: str) -> bool:
        """Whether a reservation waits, as of the last desk."""
        row = self.reservation(identifier)
        return row is not None and row.state is ReservationState.WAITING

    # ---- changes

    def write(self, *rows: Assignment | Reservation) -> None:
        """Rows as they are to be."""
        self._written.extend(rows)

    def close(self, row: Assignment, outcome: str) -> None:
        """An assignment is over. What a throw-away container had counts for its owner: it is theirs when it is gone."""
        owner = owners_by_instance(self._records.instances)[row.instance]
        over = changed(row, instance=owner, state=AssignmentState.CLOSED, closed_at=self.now, outcome=outcome)
        self._past = with_end(self._past, over)
        self._new_past += 1
        if self._new_past >= _OFTEN:
            since, self._new_past = self.now - self._back, 0
            self._past = tuple(one for one in self._past if one.closed_at is not None and one.closed_at >= since)
        self._verdicts.pop(row.slot, None)
        self._judged = object()
        self._dropped.append(row)

    def close_asked(self, row: Reservation, state: ReservationState) -> None:
        """A request or a booking is over, and nothing is promised to it any more."""
        self.write(changed(row, state=state, closed_at=self.now))
        mine = by_reservation(self._records.assignments).get(row.id, ())
        self._dropped += (one for one in mine if one.state is AssignmentState.PLANNED)

    def desk(self, host: int) -> Desk:
        """A desk for what a host decides, with all that was written; that is kept with the desk, or lost."""
        desk = self._desk(host)
        self._written, self._dropped = [], []
        return desk

    def rehearse(self, host: int) -> Snapshot:
        """What a host would look at now, with all that was written; nothing comes of it."""
        return self._desk(host).snapshot

    def _desk(self, host: int) -> Desk:
        desk = Desk(self.snapshot(host))
        for row in self._written:
            desk.put(row)
        for row in self._dropped:
            desk.drop(row)
        return desk

    def keep(self, desk: Desk) -> None:
        """What was decided on a desk is the state from here on."""
        records = desk.snapshot.records
        self._records = changed(records, version=records.version + 1)

    def snapshot(self, host: int) -> Snapshot:
        """What a host looks at, without what was written since the last desk."""
        state = (self.now, self._records, self._seen[host], self._past, self.shadows, self._judged)
        known = self._shown.get(host)
        if known is None or not all(map(is_, known[0], state)):
            shown = Snapshot(
                self.now,
                self._records,
                self._seen[host],
                self.policy,
                verdicts=self._verdicts,
                past=self._past,
                shadows=self.shadows,
            )
            known = self._shown[host] = (state, shown)
        return known[1]

    # ---- use

    def rests(self, slots: Iterable[Slot], since: datetime, *, idle: bool) -> None:
        """No work is on the slots since then; they are idle once that has lasted for the policy's window."""
        verdict = IdleVerdict(Use.IDLE if idle else Use.BUSY, since, why="no work is seen")
        self._verdicts.update(dict.fromkeys(slots, verdict))
        self._judged = object()

    def works(self, slots: Iterable[Slot]) -> None:
        """Work is on the slots."""
        self._verdicts.update(dict.fromkeys(slots, IdleVerdict(Use.BUSY, self.now, why="in use")))
        self._judged = object()

    def join(self, host: int, work: Mapping[str, int]) -> None:
        """Which containers of a host work on several cards at once, each in one process: those cards end together."""
        seen = self._seen[host]
        pids = {row.slot.gpu: (row.instance, work[row.instance]) for row in self.on(host) if row.instance in work}
        items = tuple(Reading(gpu.uuid, self.now, processes=_processes(pids.get(gpu.uuid))) for gpu in seen.gpus)
        self._seen[host] = changed(seen, readings=Readings(items) if pids else None)

    def _change(self, moved: Iterable[Assignment] = (), *, instances: tuple[Instance, ...]) -> None:
        before, self._records = self._records, changed(self._records, instances=instances)
        recount(before, self._records, ((row, row) for row in moved))


def lasting(seconds: float) -> timedelta:
    """So long in whole microseconds, and never shorter: what lasts so long is not over before."""
    whole = round(seconds * 1_000_000)
    return timedelta(microseconds=whole if whole / 1_000_000 >= seconds else whole + 1)


def _processes(of: tuple[str, int] | None) -> tuple[GpuProcess, ...]:
    return () if of is None else (GpuProcess(of[1], None, "compute", instance=of[0]),)


def _host(number: int, gpus: int, at: datetime) -> Observation:
    name = f"h{number:03}"
    cards = tuple(Gpu(f"{name}-{place:02}", f"0000:{place:02x}:00.0", MODEL, name) for place in range(gpus))
    return Observation(name, "boot", at, gpus=cards)
