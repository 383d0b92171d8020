"""The gathering for `lxgpu why`: of a container, a name that once was one, a reservation, a card."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from lxgpu import hosts, wiring
from lxgpu.cli import bookings, looks
from lxgpu.cli.screen import Screen
from lxgpu.cli.times import Times, lab_times
from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Records
from lxgpu.ports import Inventory
from lxgpu.services import endings, explain, looking, memorywords, reasons, waitline
from lxgpu.services.explain import ReasonView
from lxgpu.services.reservationviews import InLine

_PAST = timedelta(days=90)
"""How far back a beginning of a reservation's id is looked for."""

Told = tuple[tuple[ReasonView, ...], Times]


def why(screen: Screen, subject: str) -> Told:
    """What there is to say.

    Raises:
        LxgpuError: `not_found`: there is and was nothing of that name.
    """
    shown = looks.instance(screen, subject)
    if shown is not None:
        return _of_instance(screen, shown), shown.times
    times, policy = lab_times(screen)
    gone = explain.about_absent(subject, looks.events_of(subject), show=times.show)
    if gone:
        return gone, times
    row = looking.reservation_named(_store, subject, since=times.now - _PAST)
    if row is not None:
        return _of_reservation(screen, row, times, policy), times
    return _of_card(screen, subject)


def _of_instance(screen: Screen, shown: looks.Shown) -> tuple[ReasonView, ...]:
    records, times = shown.records, shown.times
    waits = [row for row in records.reservations if row.instance == shown.row.name and row.pending]
    policy = lab_times(Screen(quiet=True))[1]
    told = reasons.about_container(
        records,
        shown.row,
        shown.view,
        shown.events,
        known=_known(records),
        show=times.show,
        now=times.now,
        line=bookings.ledger(policy, now=times.now).line if waits else {},
        obstacles=_obstacles(screen, records, waits, policy),
    )
    return told if policy is None else (*told, *_of_end(shown, policy))


def _of_end(shown: looks.Shown, policy: Policy) -> tuple[ReasonView, ...]:
    records, times = shown.records, shown.times
    snapshot = waitline.remembered(records, policy, host=wiring.host_name(), now=times.now)
    told = endings.told_ends(_store(), replace(records, instances=(shown.row,)))
    snapshot = endings.with_ends(_store(), snapshot, wiring.unix_groups, told=told, rows=[shown.row])
    return endings.about_ending(snapshot, shown.row, times.show)


def _obstacles(
    screen: Screen, records: Records, rows: Iterable[Reservation], policy: Policy | None
) -> dict[str, list[tuple[str, str]]]:
    """What keeps reservations waiting, and what would have to change, by their ids; codes and sentences."""
    waits = [row for row in rows if row.pending]
    if policy is None or not waits:
        return {}
    from lxgpu.policy.waiting import why_waiting  # noqa: PLC0415 -- for those that wait
    from lxgpu.services.present import present  # noqa: PLC0415 -- as above

    site = hosts.site(screen.note, waits[0].instance, read_only=True)  # all are of one container
    snapshot = present(site, site.inventory.read() if hosts.several() else records, screen.warn)
    return {row.id: [(reason.code, reason.text) for reason in why_waiting(snapshot, row)] for row in waits}


def _of_reservation(screen: Screen, row: Reservation, times: Times, policy: Policy | None) -> tuple[ReasonView, ...]:
    ledger = bookings.ledger_of(policy, row, now=times.now)
    return reasons.about_reservation(
        ledger.records,
        row,
        ledger.events,
        place=ledger.line.get(row.id, InLine()),
        obstacles=_obstacles(screen, ledger.records, [row], policy).get(row.id, []),
        show=times.show,
    )


def _of_card(screen: Screen, subject: str) -> Told:
    found = looks.scene(screen)
    try:
        view = looks.the_gpu(found, subject)
    except LxgpuError as error:
        if error.code == "not_found":
            error.brief = f"there is no container, no card and no reservation {subject}"
            error.fix = f"{error.fix}, lxgpu reservations what is booked"
        raise
    records, times = found.records, found.times
    events = looks.events_of(view.uuid)
    note = found.cards.notes.get(view.uuid, "")
    told = list(explain.about_gpu(records, view, note, events, show=times.show, now=times.now))
    held = {row.slot.gpu for row in records.assignments if row.live and row.slot.card == view.uuid}
    told += memorywords.about_memory(events, held, show=times.show, now=times.now)
    known = _known(records)
    for row in records.assignments:
        if row.slot.card == view.uuid and row.state is AssignmentState.WARNED:
            reason = reasons.about_warning(records, row, events, known=known, show=times.show)
            told += [reason] if reason else []
    if not any(row.live and row.slot.card == view.uuid for row in records.assignments):
        promise = reasons.about_promise(records, Slot(view.uuid), known=known, show=times.show)
        told += [promise] if promise else []
    return tuple(told), times


def _known(records: Records) -> Callable[[str], Reservation | None]:
    """A reservation by its id: the open ones are at hand, the closed ones are asked for."""
    return lambda identifier: (
        records.reservation(identifier) or (_store().reservation(identifier) if identifier else None)
    )


def _store() -> Inventory:
    return wiring.inventory(read_only=True)
