"""What is guaranteed to whom, and how far ahead others may book into it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from lxgpu.figures import n_gpus
from lxgpu.instants import show_instant
from lxgpu.model.plan import Reason
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.bounds import Asked, entitled_at
from lxgpu.policy.calendar import Skyline, Span, larger, out_of_service
from lxgpu.policy.lookup import promised_by_pool


def into_guarantees(snapshot: Snapshot, asked: Asked) -> Iterator[Reason]:
    """Where a booking beyond its owner's guarantee would need cards that are guaranteed to others.

    What they leave unbooked is open to all within the free window from now; after that it is kept for them, since a
    holder of a booking is not displaced.
    """
    window = snapshot.now + timedelta(seconds=snapshot.policy.rules.bookings.free_window_s)
    for start, until in asked.times:
        begin = max(start, window)
        if until <= begin:
            continue
        own, others, there = _left(snapshot, asked, begin, until)
        if own < asked.request.gpus and others < asked.request.gpus <= there:
            when = show_instant(begin, now=snapshot.now, zone=snapshot.policy.zone)
            be = "is" if there == 1 else "are"
            text = f"from {when} on {n_gpus(there)} {be} not booked, {max(others, 0)} of them guaranteed to nobody else"
            yield Reason("guaranteed_to_others", f"{text}; {asked.request.gpus} are asked for")


def guaranteed(snapshot: Snapshot, at: datetime) -> dict[tuple[str, ...], tuple[int, frozenset[str]]]:
    """What is guaranteed to each group, and to each person whom no such group covers, with the people that it is for.

    A group's guarantee covers its members' own. People are those that the policy or the inventory knows.
    """
    policy = snapshot.policy
    named = {member for group in policy.groups.values() for member in group.members if member[0] not in "@*"}
    people = {*policy.users, *named, *(row.name for row in snapshot.records.persons)}
    promised: dict[tuple[str, ...], tuple[int, frozenset[str]]] = {}
    covering: defaultdict[str, set[str]] = defaultdict(set)
    own = {}
    for person in people:
        entitled = entitled_at(snapshot, person, at)
        own[person] = entitled.guaranteed
        cover = [name for name in entitled.groups if policy.group_total(name, at).guaranteed]
        if cover:
            for name in cover:
                covering[name].add(person)
        elif entitled.guaranteed:
            promised["user", person] = (entitled.guaranteed, frozenset({person}))
    for name, members in covering.items():
        total = max(policy.group_total(name, at).guaranteed, sum(own[person] for person in members))
        promised["group", name] = (total, frozenset(members))
    return promised


def _left(snapshot: Snapshot, asked: Asked, begin: datetime, until: datetime) -> tuple[int, int, int]:
    """What is left all the while: of the person's own guarantees, beside those of others, and of all cards."""
    person = asked.request.owner
    tables = promised_by_pool(snapshot.records.reservations).values()
    rows = [row for table in tables for row in table if not row.soft and row.id not in asked.but]
    spans = [(row.owner, Span(row.start or begin, row.until, row.gpus, row.id)) for row in rows]
    own, taken, seen = 0, [], set[str]()
    for gpus, people in guaranteed(snapshot, begin).values():
        theirs = [span for owner, span in spans if owner in people]
        if person in people:
            own = max(own, Skyline(gpus, theirs).free(begin, until))
            continue
        # Somebody in two such groups counts once: in the first.
        taken += larger([span for owner, span in spans if owner in people - seen], [Span(begin, until, gpus, "")])
        seen |= people
    taken += [span for owner, span in spans if owner not in seen]
    cards = _cards(snapshot)
    everything = Skyline(cards, (span for _, span in spans))
    return own, Skyline(cards, taken).free(begin, until), everything.free(begin, until)


def _cards(snapshot: Snapshot) -> int:
    """Cards in service, on this host and on the others."""
    here = len({gpu.uuid for gpu in snapshot.seen.gpus} - set(out_of_service(snapshot)))
    return here + sum(card.host != snapshot.seen.host and not card.closed for card in snapshot.records.cards)
