"""A reservation that is changed: judged like a new one without the old one; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.plan import Plan, Reason, Verdict
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.booking import admit_booking, room
from lxgpu.policy.reserve import Decided, no_place, scheduled
from lxgpu.policy.retold import retold


def decide_edit(
    snapshot: Snapshot,
    row: Reservation,
    *,
    gpus: int | None = None,
    at: datetime | None = None,
    until: datetime | None = None,
    note: str | None = None,
) -> Decided:
    """A changed reservation, judged like a new one without the old one; a running one cannot begin at another time."""
    start = at or row.start
    number = row.gpus if gpus is None else gpus
    running = row.state in {ReservationState.ACTIVE, ReservationState.PREPARING}
    if not row.open or row.kind is Kind.RETURN:
        text = f"{row.id} is {'a claim' if row.kind is Kind.RETURN else row.state.value}"
        return Decided(Plan(Verdict.REFUSED, (Reason("conflict", f"{text} and cannot be changed"),)))
    if row.state is ReservationState.WAITING and (at is not None or until is not None):
        text = f"{row.id} waits for its turn and has no time yet; cancel it and book the time you want"
        return Decided(Plan(Verdict.REFUSED, (Reason("conflict", text),)))
    if running and ((at is not None and at != row.start) or number > row.gpus):
        text = f"{row.id} has begun: its start and more cards cannot be had any more; book those anew"
        return Decided(Plan(Verdict.REFUSED, (Reason("conflict", text),)))
    length = (until - start) if until and start else timedelta(seconds=row.duration_s)
    if at is None and until is None and row.until and row.start:
        length = row.until - row.start
    until = start + length if start else None
    changed = replace(
        row,
        gpus=number,
        start=start,
        until=until,
        duration_s=max(1, int((length - _wait(row)).total_seconds())),
        note=row.note if note is None else note,
    )
    reasons = _edit_reasons(snapshot, row, changed)
    if reasons:
        return Decided(Plan(Verdict.REFUSED, reasons))
    shown = scheduled(snapshot, (changed,)) if changed.start else Plan(Verdict.WAITING)
    return Decided(shown, (retold(row, changed),))


def _edit_reasons(snapshot: Snapshot, row: Reservation, changed: Reservation) -> tuple[Reason, ...]:
    start = (changed.start or snapshot.now) + _wait(row)
    until = changed.until or start + timedelta(seconds=changed.duration_s)
    if until <= max(start, snapshot.now):
        return (Reason("conflict", f"it would end before {'it begins' if until <= start else 'now'}"),)
    less = (
        changed.gpus <= row.gpus
        and changed.until is not None
        and row.until is not None
        and changed.until <= row.until
        and changed.start == row.start
    )
    if less:
        return ()
    request = ReserveRequest(
        instance=row.instance,
        owner=row.owner,
        gpus=changed.gpus,
        duration_s=changed.duration_s,
        at=start,
        model=row.pool or row.model,
        class_name=row.class_name,
    )
    but = frozenset({row.id})
    asked = max(start, snapshot.now)
    found = [*admit_booking(snapshot, request, start=asked, until=until, but=but)]
    if row.pool:
        found += room(snapshot, request, pool=row.pool, start=asked, until=until, but=but)
        if not found and row.state is ReservationState.SCHEDULED:
            found += no_place(snapshot, request, row.pool, asked, until, but=but)
    return tuple(found)


def _wait(row: Reservation) -> timedelta:
    """How long after its start a reservation has its cards at the latest: one that begins as soon as it can waits.

    Its end has room for that wait, and its length is what it was asked for.
    """
    if row.state is not ReservationState.PREPARING or not row.asap or not (row.start and row.until):
        return timedelta(0)
    return max(timedelta(0), row.until - row.start - timedelta(seconds=row.duration_s))
