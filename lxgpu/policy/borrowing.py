"""Cards that their holders leave idle: who may borrow which, when a borrowing is over, and when its user must stop.

All pure. The holder never waits: what is not known counts as the holder's work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from lxgpu.figures import n_gpus
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.borrowing import Borrowing
from lxgpu.model.gpu import WHOLE, Reading, Readings
from lxgpu.model.instance import InstanceState
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import BorrowRules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import Sample
from lxgpu.policy.admission import admit, cards_of, entitlement
from lxgpu.policy.idleness import LOOK_S
from lxgpu.policy.placement import fits

GAP_S = 3 * LOOK_S
"""A longer time between two samples was seen by nobody."""
SURE_S = 0.9
"""A card that was found idle just now is opened when two looks of the sentry, a second apart, agree."""


# ---- who may borrow what


def decide_borrow(snapshot: Snapshot, request: GpuRequest, *, samples: Sequence[Sample]) -> Plan:
    """Which idle cards of others somebody may work on; `samples` reach back as far as a card must have been idle.

    Codes: `class_not_allowed`, `over_class_limit`, `no_capacity`, and those of `admit` about the person and the class.
    """
    name = request.class_name or entitlement(snapshot, request.owner).class_name
    reasons = list(admit(snapshot, replace(request, more=0)))
    chosen = snapshot.policy.classes.get(name)
    if chosen is not None and not chosen.borrow:
        reasons.append(Reason("class_not_allowed", f"class {name} may not borrow (borrow: true in the policy)"))
    had = _in_class(snapshot, request.owner, name)
    if chosen is not None and chosen.max_gpus is not None and had + request.more > chosen.max_gpus:
        text = f"one person may hold and borrow {n_gpus(chosen.max_gpus)} in class {name}, {had} are"
        reasons.append(Reason("over_class_limit", text))
    if reasons:
        return Plan(decision=Verdict.REFUSED, reasons=tuple(reasons))
    found = list(islice(_lendable(snapshot, request, samples), request.more))
    if len(found) < request.more:
        text = f"{n_gpus(len(found)) if found else 'no GPU'} left idle by a holder who lends it on"
        return Plan(decision=Verdict.WAITING, reasons=(Reason("no_capacity", f"{text}; {request.more} asked for"),))
    steps = tuple(
        PlannedStep("borrow", request.instance, gpu=row.slot.gpu, why=f"left idle by {row.instance}") for row in found
    )
    return Plan(decision=Verdict.GRANTED, steps=steps, slots=tuple(row.slot for row in found))


def _in_class(snapshot: Snapshot, person: str, name: str) -> int:
    """How many cards a person holds and has borrowed in a class."""
    records = snapshot.records
    mine = (row for row in records.borrowings if row.live and row.class_name == name)
    borrowed = sum(owner_of(records, row.instance) == person for row in mine)
    return borrowed + cards_of(snapshot, person, class_name=name)


def _lendable(snapshot: Snapshot, request: GpuRequest, samples: Sequence[Sample]) -> Iterator[Assignment]:
    """The cards in the order of their names: held by somebody else who consents, and idle for long enough."""
    records, readings = snapshot.records, snapshot.seen.readings
    rules = snapshot.policy.rules.sharing.borrow
    of_card: defaultdict[str, list[Sample]] = defaultdict(list)
    for one in samples:
        of_card[one.uuid].append(one)
    for row in sorted(records.assignments, key=lambda one: one.slot):
        gpu = snapshot.seen.gpu(row.slot.card)
        asked = gpu is not None and fits(gpu.model, request.model)
        asked = row.slot.card in request.uuids if request.uuids else asked
        reading = readings.of(row.slot.card) if readings else None
        if not asked or reading is None or not clear(reading) or owner_of(records, row.instance) == request.owner:
            continue
        if ground_gone(snapshot, row) or records.borrower(row.slot.card):
            continue
        since = quiet_since(of_card[row.slot.card], after=row.since or row.created_at, now=snapshot.now)
        if since is not None and snapshot.now - since >= timedelta(seconds=rules.idle_s):
            yield row


def owner_of(records: Records, instance: str) -> str:
    """Whose container it is; empty where that is not known."""
    found = records.instance(instance)
    return found.owner if found else ""


def ground_gone(snapshot: Snapshot, row: Assignment | None) -> str:
    """Why a holder's card cannot be lent on at all; empty when it can: theirs whole, in use, and with their consent."""
    records = snapshot.records
    if row is None or row.state is not AssignmentState.ACTIVE or row.slot.part != WHOLE:
        return "the holder gives the card back"
    if records.successor(row.slot) is not None:
        return "the card is promised to somebody"
    card, slot = records.card(row.slot.card), records.slot(row.slot)
    if (card is not None and card.closed) or (slot is not None and slot.quarantine):
        return "the card is out of service"
    if snapshot.seen.gpu(row.slot.card) is None:
        return "the host does not show the card"
    if not entitlement(snapshot, owner_of(records, row.instance)).lend_idle:
        return "the policy lends this holder's cards on no more"
    return ""


def quiet_since(samples: Sequence[Sample], *, after: datetime, now: datetime) -> datetime | None:
    """Since when, without a gap, each sample shows no process on a card; None: not now. Samples are oldest first."""
    begin, last = None, now
    for one in reversed(samples):
        seen = one.at <= now and one.at >= after
        if not seen:
            continue
        if one.processes != 0 or last - one.at > timedelta(seconds=GAP_S):
            break
        begin = last = one.at
    return begin


def clear(reading: Reading) -> bool:
    """Whether nobody at all has a process on a card, as far as NVML tells, and it tells."""
    return reading.fault is None and reading.processes is not None and not _working(reading)


def _working(reading: Reading, *, but: str = "") -> bool:
    """Whether anybody but the container `but` has a process there; a display server of the host is no work."""
    return any(
        one.instance != but and not (one.kind == "graphics" and one.instance is None) for one in reading.processes or ()
    )


# ---- when a borrowing is over


def over(snapshot: Snapshot, row: Borrowing, *, init: int | None) -> str:
    """Why a borrowing is over; empty while it is not. `init` is the borrower's init now, None when it does not run."""
    records = snapshot.records
    mine = records.instance(row.instance)
    held = next((one for one in records.assignments if one.id == row.assignment), None)
    if mine is None or mine.state is not InstanceState.READY or init is None or init != row.init:
        return "the borrower's container was stopped"
    if gone := ground_gone(snapshot, held):
        return gone
    chosen = snapshot.policy.classes.get(row.class_name)
    if chosen is None or not chosen.borrow:
        return "the policy lets this class borrow no more"
    return ""


# ---- when its user must stop


class Move(StrEnum):
    """What the sentry does: nothing, let the borrower work, stop the borrower, or end the borrowing."""

    NOTHING = "nothing"
    GO = "go"
    STOP = "stop"
    END = "end"


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at a borrowed card at `at` (seconds). `work`: somebody else is on it, or that is not known.

    `free_bytes` of its memory are in nobody's use, `reserve_bytes` have to be; None: not known.
    """

    at: float
    work: bool
    free_bytes: int | None = None
    reserve_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a borrowing stands. `fresh`: the card was just found idle for long enough, and never opened since.

    `quiet_at` and `work_at` are when the present time without, or with, the holder's work began.
    """

    running: bool = False
    fresh: bool = False
    quiet_at: float | None = None
    work_at: float | None = None
    why: str = ""


def glance(reading: Reading | None, *, borrower: str, at: float, rules: BorrowRules) -> Glance:
    """What a sample says of a borrowed card; what it does not say is the holder's work."""
    if reading is None or reading.fault or reading.processes is None:
        return Glance(at, work=True)
    used, total = reading.memory_used_bytes, reading.memory_total_bytes
    if used is None or total is None:
        return Glance(at, work=True)
    return Glance(at, _working(reading, but=borrower), total - used, rules.reserve(total))


def next_move(before: Standing, seen: Glance, rules: BorrowRules) -> tuple[Move, Standing]:
    """What one look leads to, and where the borrowing stands then."""
    work_at = (before.work_at if before.work_at is not None else seen.at) if seen.work else None
    quiet_at = None if seen.work else (before.quiet_at if before.quiet_at is not None else seen.at)
    now = replace(before, quiet_at=quiet_at, work_at=work_at, why="")
    if seen.free_bytes is not None and seen.free_bytes < seen.reserve_bytes:
        why = "the holder needs the memory" if seen.work else "more memory was taken than the reserve leaves"
        return Move.END, replace(now, running=False, fresh=False, why=why)
    if work_at is not None and not before.running and seen.at - work_at >= rules.yield_end_s:
        return Move.END, replace(now, fresh=False, why="the holder goes on working")
    if seen.work:
        stopped = replace(now, running=False, fresh=False, why="the holder works")
        return (Move.STOP if before.running else Move.NOTHING), stopped
    needed_s = SURE_S if before.fresh else rules.idle_s
    if not before.running and quiet_at is not None and seen.at - quiet_at >= needed_s:
        return Move.GO, replace(now, running=True, fresh=False)
    return Move.NOTHING, now


# ---- what is seen of the holder meanwhile


def without_borrowers(seen: Observation, records: Records) -> Observation:
    """What was seen as the holders have it: a borrower's work on their cards is none of theirs."""
    if seen.readings is None or not any(row.live for row in records.borrowings):
        return seen
    return replace(seen, readings=readings_without(seen.readings, records.borrowings))


def readings_without(readings: Readings, rows: Iterable[Borrowing]) -> Readings:
    """A sample without what borrowers do."""
    names = {row.slot.card: row.instance for row in rows if row.live}
    items = (_without(one, names[one.uuid]) if one.uuid in names else one for one in readings.items)
    return replace(readings, items=tuple(items))


def _without(reading: Reading, borrower: str) -> Reading:
    """Of a busy card with nobody else on it the holder uses nothing; with somebody else, it cannot be told apart."""
    if reading.processes is None:
        return reading
    rest = tuple(one for one in reading.processes if one.instance != borrower)
    taken = sum(one.memory_bytes or 0 for one in reading.processes if one.instance == borrower)
    used = reading.memory_used_bytes
    alone = len(rest) < len(reading.processes) and not any(one.kind == "compute" for one in rest)
    return replace(
        reading,
        processes=rest,
        utilization_percent=0 if alone else reading.utilization_percent,
        memory_used_bytes=None if used is None else max(0, used - taken),
    )
