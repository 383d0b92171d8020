"""`why`: what made a container or a card what it is, from the rows, what was seen, and the events; pure.

Each line is one fact with its time, who did it and by which rule, the present state first. Events are given newest
first; `show` writes an instant for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance
from lxgpu.model.operation import Event
from lxgpu.model.snapshot import Records
from lxgpu.policy.health import by_fault
from lxgpu.policy.stakes import NO_SHOW
from lxgpu.services.borrowwords import borrowed_by, of_card
from lxgpu.services.cardviews import FOREIGN, GpuView
from lxgpu.services.traces import slots_of
from lxgpu.services.views import InstanceView

Show = Callable[[datetime], str]


@dataclass(frozen=True, slots=True)
class ReasonView:
    """One fact: a stable code, a sentence, when it came about, by whom, by which rule; None where nobody noted it."""

    subject: str
    code: str
    text: str
    at: datetime | None = None
    actor: str | None = None
    rule: str | None = None


_STATES = {
    "running": "it runs",
    "stopped": "it is stopped",
    "frozen": "it is frozen: its processes stand still",
    "error": "LXD could not start or stop it; lxgpu restart puts it in order",
    "creating": "it is being made",
    "deleting": "it is being deleted",
    "suspended": "it is suspended: no login, no cards, its data are kept",
    "trashed": "it was deleted and is kept for a while",
    "missing": "the inventory has it, but LXD does not: it was removed behind lxgpu's back",
    "unreachable": "LXD does not answer, so whether it runs is not known",
    "foreign": "lxgpu did not make it; lxgpu adopt takes it over",
}


def about_gpu(
    records: Records, view: GpuView, note: str, events: Sequence[Event], *, show: Show, now: datetime | None = None
) -> tuple[ReasonView, ...]:
    """Who holds a card, since when and by whose doing, or why nobody may have it; at `now` a lease may be over."""
    mine = [event for event in events if concerns(event, view.uuid)]
    rows = sorted((row for row in records.assignments if row.slot.card == view.uuid and row.live), key=_by_slot)
    found = [_holding(row, mine, show, now) for row in rows]
    found += [
        ReasonView(view.uuid, FOREIGN, f"{slot.holder} has it attached without lxgpu, so it is lent to nobody")
        for slot in view.slots
        if slot.state == FOREIGN
    ]
    lent = records.borrower(view.uuid)
    if lent is not None:
        found.append(ReasonView(view.uuid, f"borrow_{lent.state.value}", of_card(records, view.uuid), at=lent.since))
    found += _out_of_service(records, view, note, mine)
    if not found:
        found.append(_free(records, view, mine, show))
    return tuple(found)


def about_instance(
    records: Records,
    row: Instance,
    view: InstanceView,
    events: Sequence[Event],
    *,
    show: Show,
    now: datetime | None = None,
) -> tuple[ReasonView, ...]:
    """The state of a container, what it holds and by whose doing, what is under way, what was refused to it last."""
    mine = [event for event in events if event.subject == row.name]
    state = view.state or "unknown"
    text = _STATES.get(state, "LXD says it is changing") + (f": {row.reason}" if row.reason else "")
    found = [fact(row.name, state, text, _last(mine, *_KINDS.get(state, ("created",))))]
    if state == "stopped" and row.running:
        found.append(ReasonView(row.name, "stopped_outside", "it should run: it stopped by itself or without lxgpu"))
    found += [_holding(held, mine, show, now) for held in records.held_by(row.name)]
    found += [
        ReasonView(str(one.slot), f"borrow_{one.state.value}", text, at=one.since)
        for one, text in borrowed_by(records, row.name)
    ]
    found += [
        ReasonView(
            row.name,
            "under_way",
            f"{one.kind} is under way, at step {one.step or '-'}" + (f": {one.error}" if one.error else ""),
            at=one.created_at,
            actor=one.actor,
        )
        for one in records.operations
        if one.instance == row.name and one.live
    ]
    return (*found, *last_refusal(row.name, mine, show=show, now=now))


def about_absent(name: str, events: Sequence[Event], *, show: Show) -> tuple[ReasonView, ...]:
    """Why there is no container of a name: it was deleted, its making failed, or was refused; else nothing."""
    mine = [event for event in events if event.subject == name]
    ended = _last(mine, "deleted", "create_undone", "refused")
    return (_told(name, ended, show),) if ended else ()


def last_refusal(name: str, events: Iterable[Event], *, show: Show, now: datetime | None) -> tuple[ReasonView, ...]:
    """What was refused last, for as long as it is news: nothing came after it, and it is not older than an hour."""
    newest = next((event for event in events if event.kind != _TOLD), None)
    if newest is None or newest.kind != "refused" or (now is not None and now - newest.at > _NEWS):
        return ()
    return (_told(name, newest, show),)


_NEWS = timedelta(hours=1)
"""A refusal that is older than this explains nothing of the present."""
_TOLD = "told"
"""The kind of event that notes a notice: nothing happened to the container by it."""


def _by_slot(row: Assignment) -> Slot:
    return row.slot


def concerns(event: Event, uuid: str) -> bool:
    """Whether an event is about a card, or a part of it."""
    return uuid in {event.subject, *(slot.gpu for slot in slots_of(event)), *(slot.card for slot in slots_of(event))}


_KINDS = {
    "suspended": ("suspend",),
    "stopped": ("stop",),
    "running": ("restart", "start", "resume", "created"),
    "trashed": ("deleted",),
}


def _holding(row: Assignment, events: Iterable[Event], show: Show, now: datetime | None) -> ReasonView:
    until = f", until {show(row.until)}" if row.until else ", without an end"
    if row.until and now and row.until <= now:
        until = f" past its time, which ended at {show(row.until)}: it is kept until someone waits for it"
    gives = f" and gives it up at {show(row.due_at)}" if row.due_at else ""
    words = {
        AssignmentState.ATTACHING: "gets it now",
        AssignmentState.WARNED: f"holds it{gives}: they are warned",
        AssignmentState.RELEASING: "gives it back: it is not proven free yet",
        AssignmentState.QUARANTINED: "had it last; it could not be proven free, so nobody gets it",
    }
    text = words.get(row.state, f"holds it{until}")
    kinds = ("quarantined",) if row.state is AssignmentState.QUARANTINED else ("attached",)
    event = next((one for one in events if one.kind in kinds and concerns(one, row.slot.gpu)), None)
    made = fact(str(row.slot), row.state.value, f"{row.instance} {text}", event)
    return made if event else ReasonView(made.subject, made.code, made.text, at=row.since or row.created_at)


def _out_of_service(records: Records, view: GpuView, note: str, events: Iterable[Event]) -> list[ReasonView]:
    found, card = [], records.card(view.uuid)
    if card is not None and card.closed:
        found.append(
            ReasonView(
                view.uuid,
                "closed",
                f"it was taken out of service: {card.closed}; lxgpu gpu open ends that",
                at=card.closed_at,
                actor=card.closed_by or None,
            )
        )
    quarantined = next((one for one in events if one.kind in {"quarantined", "xid"}), None)
    found += [
        ReasonView(
            view.uuid,
            "quarantined",
            _quarantine(slot.quarantine),
            at=slot.quarantined_at,
            actor=quarantined.actor if quarantined else None,
            rule=(quarantined.rule or None) if quarantined else None,
        )
        for slot in records.slots
        if slot.slot.card == view.uuid and slot.quarantine
    ]
    if view.health in {"missing", "sick"}:
        found.append(ReasonView(view.uuid, view.health, note))
    return found


def _quarantine(why: str) -> str:
    if by_fault(why):
        return f"it has a fault, {why}"
    return f"it could not be proven free: {why}; lxgpu gpu open proves it again"


def _free(records: Records, view: GpuView, events: Iterable[Event], show: Show) -> ReasonView:
    if any(slot.state is None for slot in view.slots):
        return ReasonView(view.uuid, "unknown", "nobody holds it by the inventory, but LXD does not answer")
    known = records.slot(Slot(view.uuid))
    proof = f"; proven free at {show(known.proven_at)}" if known is not None and known.proven_at else ""
    last = next((one for one in events if one.kind == "released"), None)
    if last is None:
        return ReasonView(view.uuid, "free", f"nobody holds it{proof}")
    how = _HOW.get(str(last.detail.get("outcome")), "gave it back")
    if NO_SHOW in {last.rule, last.detail.get("outcome")}:
        how = "had booked it and nobody came"
    return fact(view.uuid, "free", f"nobody holds it: {last.subject} {how}{proof}", last)


_HOW = {
    "expired": "had it until the time was over and somebody waited",
    "idle": "had it and did not use it, so it was taken back",
    "preempted": "had to yield it",
    "cleared": "had it last, and an admin took it off",
}
"""How the last holder lost it, by the outcome; whoever is not here gave it back."""


def _told(name: str, event: Event, show: Show) -> ReasonView:
    """What an event of an end says by itself."""
    why = event.detail.get("why")
    more = "; ".join(map(str, why)) if isinstance(why, (list, tuple)) else str(why or "")
    if event.kind == "refused":
        asked = event.detail.get("message")
        words = "; ".join(filter(None, [str(asked or ""), more]))
        return fact(name, "refused", f"refused at {show(event.at)} (asked by {event.actor}): {words}", event)
    if event.kind == "create_undone":
        return fact(name, event.kind, f"its making failed and was undone: {more or 'no reason was noted'}", event)
    trash = event.detail.get("trash")
    return fact(name, event.kind, "it was deleted" + (f" and is kept as {trash}" if trash else ""), event)


def fact(subject: str, code: str, text: str, event: Event | None) -> ReasonView:
    """One fact, with time, actor and rule of the event that made it so."""
    if event is None:
        return ReasonView(subject, code, text)
    return ReasonView(subject, code, text, at=event.at, actor=event.actor, rule=event.rule or None)


def _last(events: Iterable[Event], *kinds: str) -> Event | None:
    return next((event for event in events if event.kind in kinds), None)
