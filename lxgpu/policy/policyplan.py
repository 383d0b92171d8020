"""What an edit of the policy would do to those who have cards, bookings and requests; pure.

Two things are compared under the old and the new policy: what is not in order for the policy, and what would be
decided at once. Only what the edit makes worse for somebody is an effect; what they may have more is their good luck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.policy.admission import cards_of, entitlement
from lxgpu.policy.agenda import decide_tick
from lxgpu.policy.bounds import entitled_at
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.desk import Note
from lxgpu.policy.divisions import HELD, divisions, in_words, who_has
from lxgpu.policy.expiry import emptied_at, ending_of
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.lookup import owners_by_instance
from lxgpu.units import format_duration

EVERYBODY = "everybody"
ENDINGS = {"missed": "nobody used it", "failed": "its cards cannot be had", "cancelled": "it is given up"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that an edit does: to whom, how many cards, from when on (None: at once, or when somebody waits).

    `subject` is a person, a group, or `EVERYBODY`. Codes: `takes`, `ends`, `booking_surplus`, `booking_too_large`,
    `booking_too_long`, `beyond_horizon`, `over_limit`, `over_group_limit`, `over_class_limit`, `person_ended`,
    `class_gone`, `class_not_allowed`, `less_guaranteed`, `suspends`,
    `empties`, `divides`, `page_opens`, `page_closes`.
    """

    code: str
    subject: str
    text: str
    gpus: int | None = None
    at: datetime | None = None


def effects_of(snapshot: Snapshot, new: Policy) -> tuple[Effect, ...]:
    """What the new policy would do that the one in force does not; `snapshot.unix_groups` must know all owners."""
    changed = replace(snapshot, policy=new)
    before = set(at_odds(snapshot))
    found = [effect for effect in at_odds(changed) if effect not in before]
    found += _less_guaranteed(snapshot, changed)
    found += _decided(snapshot, changed)
    found += _expiring(snapshot, changed)
    found += _looking(snapshot.policy, new)
    return tuple(sorted(found, key=_order))


def at_odds(snapshot: Snapshot) -> tuple[Effect, ...]:
    """What those who live have that the policy would not give them, in a fixed order."""
    found = [effect for person in owners_of(snapshot.records) for effect in _of_person(snapshot, person)]
    found += [effect for name in snapshot.policy.groups for effect in _of_group(snapshot, name)]
    found += _classes_gone(snapshot)
    found += _not_divided_yet(snapshot)
    return tuple(sorted(found, key=_order))


def owners_of(records: Records) -> tuple[str, ...]:
    """Everybody who has a container or a reservation."""
    housed = {row.owner for row in records.instances}
    return tuple(sorted(housed | {row.owner for row in records.reservations}))


def _order(effect: Effect) -> tuple[bool, float, str, str, str]:
    return (
        effect.at is not None,
        effect.at.timestamp() if effect.at else 0.0,
        effect.subject,
        effect.code,
        effect.text,
    )


def _of_person(snapshot: Snapshot, person: str) -> Iterator[Effect]:
    entitled, held = entitlement(snapshot, person), cards_of(snapshot, person)
    mine = [row for row in snapshot.records.reservations if row.owner == person and row.kind is not Kind.RETURN]
    if entitled.ended(snapshot.now) and (held or mine):
        text = f"{person}'s time is over: no card is lent any more, and those held go first when somebody waits"
        yield Effect("person_ended", person, text, held)
    if held > entitled.limit:
        over = held - entitled.limit
        text = f"{person} holds {held} and may hold {entitled.limit}: {_goes(over)} first when somebody waits"
        yield Effect("over_limit", person, text, over)
    for name, count in _by_class(snapshot, person).items():
        chosen = snapshot.policy.classes.get(name)
        if chosen is None:
            continue
        if chosen.max_gpus is not None and count > chosen.max_gpus:
            text = f"{person} holds {count} in class {name}, of which one person may hold {chosen.max_gpus}"
            yield Effect("over_class_limit", person, f"{text}: nothing more is lent in it", count - chosen.max_gpus)
        if not snapshot.policy.may_use(name, person, snapshot.unix_groups.get(person, frozenset()), snapshot.now):
            text = f"{person} holds {_gpus(count)} in class {name} and may not ask in it any more"
            yield Effect("class_not_allowed", person, text, count)
    yield from _bookings(snapshot, person, mine)
    yield from _beyond_rules(snapshot, person, mine)


def _bookings(snapshot: Snapshot, person: str, mine: Iterable[Reservation]) -> Iterator[Effect]:
    """Bookings that come to more than the person may have then: the newest is trimmed, and begins with less."""
    kept: list[Reservation] = []
    for row in sorted(mine, key=lambda one: (one.created_at, one.id)):
        if row.start is None or row.until is None or row.kind is not Kind.BOOKING:
            continue
        kept.append(row)
        start = max(row.start, snapshot.now)
        limit = entitled_at(snapshot, person, start).limit
        if entitled_at(snapshot, person, start).ended(start):
            limit = 0
        spans = [Span(one.start, one.until, one.gpus, one.id) for one in kept if one.start is not None]
        over = min(row.gpus, max(0, -Skyline(0, spans).free(start, row.until) - limit))
        if over and row.start > snapshot.now:
            when = show_instant(start, now=snapshot.now, zone=snapshot.policy.zone)
            text = f"takes {_gpus(over)} from {person} at {when}: booking {row.id} of {row.gpus}, may have {limit} then"
            yield Effect("booking_surplus", person, text, over, start)
            kept[-1] = replace(row, gpus=row.gpus - over)


def _beyond_rules(snapshot: Snapshot, person: str, mine: Iterable[Reservation]) -> Iterator[Effect]:
    """Bookings that nobody could make any more; those that are made stay."""
    rules, zone = snapshot.policy.rules.bookings, snapshot.policy.zone
    last = snapshot.now + timedelta(seconds=rules.horizon_s)
    for row in mine:
        if row.start is None or row.until is None or row.kind is not Kind.BOOKING or not row.open:
            continue
        begins, ends, reach = (show_instant(at, now=snapshot.now, zone=zone) for at in (row.start, row.until, last))
        what, stays = f"booking {row.id} of {person} at {begins}", "it stays, and no other like it can be made"
        if row.gpus > rules.max_gpus:
            text = f"{what} has {_gpus(row.gpus)}, and one booking may have {rules.max_gpus}: {stays}"
            yield Effect("booking_too_large", person, text, row.gpus - rules.max_gpus, row.start)
        length = int((row.until - row.start).total_seconds())
        if length > rules.longest_s:
            most = format_duration(rules.longest_s)
            text = f"{what} lasts {format_duration(length)}, and one booking may last {most}: {stays}"
            yield Effect("booking_too_long", person, text, at=row.start)
        if row.until > last:
            text = f"{what} ends at {ends}, and bookings may reach until {reach}: {stays}"
            yield Effect("beyond_horizon", person, text, at=row.start)


def _of_group(snapshot: Snapshot, name: str) -> Iterator[Effect]:
    over = Guarantees(snapshot).group_over_limit(name)
    if over:
        limit = snapshot.policy.group_total(name, snapshot.now).limit
        text = f"group {name} holds {over} more than the {limit} it may: {_goes(over)} first when somebody waits"
        yield Effect("over_group_limit", name, text, over)


def _classes_gone(snapshot: Snapshot) -> Iterator[Effect]:
    owners = owners_by_instance(snapshot.records.instances)
    had = [(owners.get(row.instance, row.instance), row.class_name) for row in snapshot.records.assignments if row.live]
    had += [(row.owner, row.class_name) for row in snapshot.records.reservations]
    gone = Counter((person, name) for person, name in had if name and name not in snapshot.policy.classes)
    for (person, name), count in sorted(gone.items()):
        text = f"there is no class {name} any more: {count} cards and reservations of {person} count as the lowest"
        yield Effect("class_gone", person, text, count)


def _not_divided_yet(snapshot: Snapshot) -> Iterator[Effect]:
    """Cards that are to be divided in another way, and who has some of them: they keep it, and the card waits."""
    owners = owners_by_instance(snapshot.records.instances)
    for one in divisions(snapshot):
        if not one.due:
            continue
        what = f"{one.card.uuid} is to be {one.words}, and stays {in_words(one.now)} until nobody has any of it"
        for row in snapshot.records.assignments:
            if row.slot.card == one.card.uuid:
                text = f"{what}: {who_has(snapshot, row)}, and keeps it"
                yield Effect("divides", owners.get(row.instance, row.instance), text)
        for reason in one.obstacles:
            if reason.code != HELD:
                yield Effect("divides", one.card.uuid, f"{what}: {reason.text}")


def _less_guaranteed(before: Snapshot, after: Snapshot) -> Iterator[Effect]:
    """Cards that were safe within a guarantee and are not any more."""
    for person in sorted({row.owner for row in after.records.instances}):
        held = cards_of(after, person)
        old, new = (min(held, entitlement(one, person).guaranteed) for one in (before, after))
        if new < old:
            text = f"{_gpus(old - new)} of {person}'s may be taken for others: guaranteed were {old}, are {new}"
            yield Effect("less_guaranteed", person, text, old - new)
    for name in sorted(set(before.policy.groups) & set(after.policy.groups)):
        old, new = (one.policy.group_total(name, one.now).guaranteed for one in (before, after))
        if new < old:
            text = f"group {name} keeps {new} cards instead of {old} when others ask"
            yield Effect("less_guaranteed", name, text, old - new)


def _decided(before: Snapshot, after: Snapshot) -> Iterator[Effect]:
    """What a look at the host would decide at once under the new policy, and not under the old one."""
    known = {_key(note) for note in decide_tick(before).notes}
    for note in decide_tick(after).notes:
        if _key(note) in known:
            continue
        facts = note.detail
        if note.kind == "warned":
            due = datetime.fromisoformat(str(facts["due_at"]))
            cards = facts.get("gpus")
            count = len(cards) if isinstance(cards, (list, tuple)) else 1
            when = show_instant(due, now=after.now, zone=after.policy.zone)
            text = f"takes {_gpus(count)} from {note.subject} at {when}, for {facts.get('for')}: {facts.get('why')}"
            yield Effect("takes", note.subject, text, count, due)
        elif note.kind in ENDINGS:
            text = f"ends {note.subject}'s reservation {facts.get('reservation')}: {ENDINGS[note.kind]}"
            yield Effect("ends", note.subject, text, at=after.now)


def _expiring(before: Snapshot, after: Snapshot) -> Iterator[Effect]:
    """Containers that end sooner than they would have, those in the trash too."""
    for row in after.records.instances:
        old, new = ending_of(before, row), ending_of(after, row)
        if new is not None and (old is None or new.at < old.at):
            when, end = (show_instant(at, now=after.now, zone=after.policy.zone) for at in (new.at, new.end))
            since = "" if new.at == new.end else ", told when the edit is in force"
            text = f"suspends {row.name} of {row.owner} at {when}: their time ends at {end}{since}"
            yield Effect("suspends", row.owner, text, at=new.at)
        kept, gone = emptied_at(before, row), emptied_at(after, row)
        if kept is not None and gone is not None and gone < kept:
            when = show_instant(gone, now=after.now, zone=after.policy.zone)
            text = f"removes {row.name} of {row.owner} from the trash for good {_after(gone, after.now, when)}"
            yield Effect("empties", row.owner, text, at=max(gone, after.now))


def _looking(before: Policy, after: Policy) -> Iterator[Effect]:
    """Who may look at the page."""
    was, will = before.rules.page.public, after.rules.page.public
    if will and not was:
        text = "the page shows names, cards and bookings to everybody who reaches it, without a login"
        yield Effect("page_opens", EVERYBODY, text)
    if was and not will:
        text = "the page is for those who log in: who only looked needs a link (lxgpu web --link)"
        yield Effect("page_closes", EVERYBODY, text)


def _after(at: datetime, now: datetime, when: str) -> str:
    return "at once" if at <= now else f"after {when}"


def _key(note: Note) -> tuple[str, str, str, str]:
    return (note.kind, note.subject, str(note.detail.get("reservation")), str(note.detail.get("gpus")))


def _by_class(snapshot: Snapshot, person: str) -> Counter[str]:
    mine = {row.name for row in snapshot.records.instances if row.owner == person}
    rows = (row for row in snapshot.records.assignments if row.live and row.instance in mine)
    return Counter(row.class_name for row in rows if row.class_name)


def _goes(count: int) -> str:
    return f"nothing is taken at once, {count} {'goes' if count == 1 else 'go'}"


def _gpus(count: int) -> str:
    return n_gpus(count)
