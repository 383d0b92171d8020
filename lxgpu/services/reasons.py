"""What `why` says of bookings, of those who wait, and of cards that were taken; pure.

Events are given newest first; `Known` finds a reservation by its id, closed ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from lxgpu.figures import short_duration
from lxgpu.model.assignment import GIVING_WAY, Assignment, AssignmentState
from lxgpu.model.cardnames import n_asked, n_cards, n_held
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance
from lxgpu.model.layout import in_parts
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.services.explain import ReasonView, Show, about_instance, fact
from lxgpu.services.memorywords import about_memory
from lxgpu.services.reservationviews import InLine, bound, claims_of, likely
from lxgpu.services.traces import claim_of, in_words, numbers_of, reservation_of, slots_of, taking_of, unsaid
from lxgpu.services.views import InstanceView

Known = Callable[[str], Reservation | None]

_ENDS = {
    ReservationState.FINISHED: "it is over",
    ReservationState.MISSED: "it ended since nobody used it",
    ReservationState.CANCELLED: "it was given up",
    ReservationState.FAILED: "it could not be met",
}


def about_container(
    records: Records,
    row: Instance,
    view: InstanceView,
    events: Sequence[Event],
    *,
    known: Known,
    show: Show,
    now: datetime,
    line: Mapping[str, InLine] | None = None,
    obstacles: Mapping[str, Iterable[tuple[str, str]]] | None = None,
) -> tuple[ReasonView, ...]:
    """All there is to say about a container: its state, what it holds, yields and waits for, what it may keep.

    `line` and `obstacles` are of its reservations that wait, by id, as `about_reservation` takes them.
    """
    line, obstacles = line or {}, obstacles or {}
    found = about_instance(records, row, view, events, show=show, now=now)
    yielding = about_yielding(records, row.name, events, known=known, show=show)
    own: list[ReasonView] = []
    for one in records.reservations:
        if one.instance != row.name or one.kind is Kind.RETURN:
            continue
        why = tuple(obstacles.get(one.id, ()))
        place = line.get(one.id, InLine())
        told = about_reservation(records, one, events, place=place, obstacles=why, show=show)
        own += told[: 1 + (len(why) if one.pending else 0)]
    kept = [
        ReasonView(row.name, "kept", f"idle cards are left to it until {show(one.until)}: {one.reason}", at=one.since)
        for one in records.keeps
        if one.instance == row.name and one.since <= now < one.until
    ]
    held = {held.slot.gpu for held in records.held_by(row.name)}
    mine = (event for event in events if event.subject == row.name)
    return (*found, *about_memory(mine, held, show=show, now=now), *yielding, *own, *kept)


def about_yielding(
    records: Records, instance: str, events: Sequence[Event], *, known: Known, show: Show
) -> tuple[ReasonView, ...]:
    """What a container is about to lose, what it lost and to whom, by which rule and numbers, and when it returns."""
    rows = [row for row in records.held_by(instance) if row.state is AssignmentState.WARNED]
    found = [reason for row in rows if (reason := about_warning(records, row, events, known=known, show=show))]
    claims = claims_of(records, instance)
    found += [_claim(claim, events, known=known, show=show) for claim in claims]
    open_claims = {claim.id for claim in claims}
    last = next((event for event in events if event.kind in {"displaced", "attached", "returned"}), None)
    if last is not None and last.kind == "displaced" and claim_of(last) not in open_claims:
        found.append(_lost(last, events, known=known, show=show))
    return tuple(found)


def about_warning(
    records: Records, row: Assignment, events: Sequence[Event], *, known: Known, show: Show
) -> ReasonView | None:
    """Why a holder was warned and to whom the card goes; None when nobody waits for it any more."""
    promise = records.successor(row.slot)
    event = taking_of(events, row.instance, row.slot, (promise.reservation or "") if promise else "")
    identifier = (promise.reservation if promise else None) or (reservation_of(event) if event else "")
    if not identifier:
        return None
    due = f" at {show(row.due_at)}" if row.due_at else ""
    text = f"it goes to {_whose(identifier, known, promise)}{due}{_ground(event, row.outcome, show)}"
    made = fact(str(row.slot), "yields", text, event)
    return made if event else ReasonView(made.subject, made.code, made.text, rule=row.outcome or None)


def about_promise(records: Records, slot: Slot, *, known: Known, show: Show) -> ReasonView | None:
    """Whom a slot goes to next; None when it is promised to nobody."""
    promise = records.successor(slot)
    if promise is None:
        return None
    wanted = known(promise.reservation or "")
    begins = f" from {show(wanted.start)}" if wanted and wanted.start else ""
    text = f"it is promised to {_whose(promise.reservation or '', known, promise)}{begins}"
    return ReasonView(str(slot), "promised", text, at=promise.created_at)


def about_reservation(
    records: Records,
    row: Reservation,
    events: Sequence[Event],
    *,
    place: InLine,
    obstacles: Iterable[tuple[str, str]] = (),
    show: Show,
) -> tuple[ReasonView, ...]:
    """How a reservation stands: its state, what it waits for, and where its cards come from.

    Args:
        records: the inventory.
        row: the reservation, open or closed.
        events: the history of its container, newest first.
        place: its place in the line.
        obstacles: what keeps it waiting and what would have to change, as codes and sentences.
        show: writes an instant.
    """
    mine = [event for event in events if reservation_of(event) == row.id]
    made = _last(mine, *_MADE.get(row.state, ()))
    found = [fact(row.id, row.state.value, _state_text(records, row, place, show), made)]
    if made is None:
        found = [ReasonView(row.id, row.state.value, found[0].text, at=row.closed_at or row.created_at)]
    if row.cause and row.pending:
        found.append(ReasonView(row.id, "claim", f"it is owed since its cards went to reservation {row.cause}"))
    if row.pending:
        found += [ReasonView(row.id, code, text) for code, text in obstacles]
    found += _sources(records, row, events, show)
    return tuple(found)


_MADE = {
    ReservationState.WAITING: ("waiting", "reserved", "displaced"),
    ReservationState.SCHEDULED: ("reserved", "edited"),
    ReservationState.PREPARING: ("preparing", "reserved"),
    ReservationState.ACTIVE: ("started",),
    ReservationState.FINISHED: ("finished", "returned"),
    ReservationState.MISSED: ("missed",),
    ReservationState.CANCELLED: ("cancelled",),
    ReservationState.FAILED: ("failed",),
}


def _state_text(records: Records, row: Reservation, place: InLine, show: Show) -> str:
    cards = n_cards(row.gpus, row.pool) if row.pool else n_asked(row.gpus, row.model)
    span = f" from {show(row.start)} until {show(row.until)}" if row.start and row.until else ""
    there = [one for one in bound(records, row) if one.live]
    match row.state:
        case ReservationState.WAITING:
            where = f"number {place.position} in the line" if place.position else "it waits"
            begin = f", likely {likely(show(place.estimate), foreseen=place.foreseen)}" if place.estimate else ""
            what = "owed back" if row.kind is Kind.RETURN else f"for {short_duration(row.duration_s)}"
            return f"{cards} for {row.instance}, {what}: {where}{begin}{_dies(row, show)}"
        case ReservationState.SCHEDULED:
            be = "is" if row.gpus == 1 else "are"
            return f"{cards} {be} booked for {row.instance}{span}; which ones is settled shortly before"
        case ReservationState.PREPARING:
            return f"{cards} for {row.instance}{span}: {len(there)} of {row.gpus} are there"
        case ReservationState.ACTIVE:
            has = n_held(one.slot.gpu for one in there) if in_parts(row.pool) else f"{len(there)} of {row.gpus} GPUs"
            return f"{row.instance} has {has}{span}"
    why = f": {row.outcome}" if row.outcome else ""
    return f"{cards} for {row.instance}{span}: {_ENDS.get(row.state, row.state.value)}{why}"


def _sources(records: Records, row: Reservation, events: Sequence[Event], show: Show) -> Iterator[ReasonView]:
    """Where each promised card is now, and who gave way for those that are there."""
    for promise in bound(records, row):
        holder = records.holder(promise.slot)
        if promise.state is not AssignmentState.PLANNED:
            continue
        if holder is None:
            yield ReasonView(str(promise.slot), "promised", f"{promise.slot} is free and promised to it")
        elif holder.state in GIVING_WAY:
            due = f", until {show(holder.due_at)} at the latest" if holder.due_at else ""
            doing = "is warned" if holder.state is AssignmentState.WARNED else "is giving it back"
            event = taking_of(events, holder.instance, promise.slot, row.id)
            text = (
                f"{promise.slot} comes from {holder.instance}, who {doing}{due}{_ground(event, holder.outcome, show)}"
            )
            yield fact(str(promise.slot), "yields", text, event)
        else:
            yield ReasonView(str(promise.slot), "held", f"{promise.slot} is still with {holder.instance}")
    for event in events:
        if event.kind == "displaced" and reservation_of(event) == row.id:
            cards = ", ".join(map(str, slots_of(event)))
            owed = "; they have a claim to it" if claim_of(event) else ""
            ground = _ground(_warning_before(event, events), event.rule, show)
            yield fact(row.id, "displaced", f"{event.subject} gave {cards} up for it{ground}{owed}", event)


def _claim(claim: Reservation, events: Sequence[Event], *, known: Known, show: Show) -> ReasonView:
    event = next((one for one in events if claim_of(one) == claim.id), None)
    cause = known(claim.cause) if claim.cause else None
    cards = n_asked(claim.gpus, claim.pool or claim.model)
    back = "as soon as a card like it is free"
    if cause is not None and cause.open and cause.until is not None:
        back = f"when {cause.instance}'s time ends at {show(cause.until)}, or before, {back}"
    ground = _ground(_warning_before(event, events) if event else None, event.rule if event else "", show)
    text = (
        f"{cards} went to {_whose(claim.cause, known, None)}{ground};"
        f" {'it comes' if claim.gpus == 1 else 'they come'} back by {'itself' if claim.gpus == 1 else 'themselves'}"
        f" {back}{_dies(claim, show)}"
    )
    made = fact(claim.id, "claim", text, event)
    return made if event else ReasonView(made.subject, made.code, made.text, at=claim.created_at)


def _lost(event: Event, events: Sequence[Event], *, known: Known, show: Show) -> ReasonView:
    """The newest loss that no claim came of, or whose claim is over."""
    cards = ", ".join(str(slot) for slot in slots_of(event)) or "cards"
    claim = known(claim_of(event) or "")
    after = "; there is no claim to have it back"
    if claim is not None:
        ended = f" at {show(claim.closed_at)}" if claim.closed_at else ""
        after = f"; its claim {claim.id} ended{ended}: {claim.outcome or claim.state.value}"
    ground = _ground(_warning_before(event, events), event.rule, show)
    whose = _whose(reservation_of(event), known, None)
    return fact(event.subject, "displaced", f"{cards} went to {whose}{ground}{after}", event)


def _whose(identifier: str, known: Known, promise: Assignment | None) -> str:
    """`bob's reservation 1a2b3c`, as far as it is known."""
    row = known(identifier) if identifier else None
    name = row.instance if row else promise.instance if promise else ""
    what = f"reservation {identifier}" if identifier else "somebody who waited"
    return f"{name}'s {what}" if name and identifier else what


def _ground(event: Event | None, rule: str, show: Show) -> str:
    """The rule, the sentence and the numbers that were compared, as far as they were noted."""
    said = str(event.detail.get("why") or "") if event else ""
    numbers = in_words(unsaid(numbers_of(event), said), show) if event else ""
    words = "; ".join(filter(None, [f"rule {rule}" if rule else "", said, numbers]))
    return f" ({words})" if words else ""


def _warning_before(event: Event, events: Sequence[Event]) -> Event | None:
    """The warning that led to a loss: it has the numbers."""
    slots = set(slots_of(event))
    return next(
        (
            one
            for one in events
            if one.kind == "warned"
            and one.subject == event.subject
            and reservation_of(one) == reservation_of(event)
            and slots & set(slots_of(one))
        ),
        None,
    )


def _dies(row: Reservation, show: Show) -> str:
    return f"; the claim dies at {show(row.dies)}" if row.dies else ""


def _last(events: Iterable[Event], *kinds: str) -> Event | None:
    return next((event for event in events if event.kind in kinds), None)
