"""Containers and people whose time is over, and the trash: what ends when, and what is told before; pure.

Nobody's container ends without a word: it is suspended at its end, but no sooner than `WARNING` after its owner was
told of that very end, so that an edit of the policy takes nothing at once. What is deleted for good was in the trash
for as long as was promised when it came there. And both need a clock that nobody set for `STEADY`: a clock that is
wrong for an hour, as after a boot without a network, ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import BASE_TERMS, NOTHING, Policy, Terms
from lxgpu.model.snapshot import EndTold, Snapshot
from lxgpu.policy.admission import entitlement
from lxgpu.policy.lookup import at_work

AHEAD = timedelta(days=30)
"""So long before the end it is told."""
WARNING = timedelta(days=7)
"""So long after it was told a container is suspended at the soonest; half the time it was made for, if that is less."""
STEADY = timedelta(days=1)
"""So long the clock must have been watched in this boot without being set, before anything ends by a date."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A container that ends: `end` is what its own date or its owner's says, `at` when that happens.

    `told_at` is when the owner was told of that very end; None: not yet, and `at` is as if that happened now.
    """

    instance: str
    end: datetime
    at: datetime
    told_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """Something to tell a container's owner: of an end, or (None) that the end that was told of is put off."""

    instance: str
    ending: Ending | None
    later: datetime | None = None


@dataclass(frozen=True, slots=True)
class Expiry:
    """What is to be done now: owners to be told, containers to be suspended, and to be removed from the trash."""

    words: tuple[Word, ...] = ()
    suspended: tuple[Ending, ...] = ()
    emptied: tuple[str, ...] = ()


def decide_expiry(snapshot: Snapshot, *, paused: bool = False) -> Expiry:
    """What the dates ask for at this moment. Paused, or while the clock is not to be trusted, people are only told."""
    rows = [row for row in snapshot.records.instances if row.name not in at_work(snapshot.records.operations)]
    ready = [row for row in rows if row.state is InstanceState.READY]
    words = tuple(word for row in ready if (word := _word(snapshot, row)))
    if paused or snapshot.steady_s < STEADY.total_seconds():
        return Expiry(words)
    ends = (ending_of(snapshot, row) for row in ready)
    over = (one for one in ends if one and one.told_at is not None and one.at <= snapshot.now)
    gone = (row.name for row in rows if (at := emptied_at(snapshot, row)) is not None and at <= snapshot.now)
    return Expiry(words, tuple(over), tuple(gone))


def end_of(snapshot: Snapshot, row: Instance) -> datetime | None:
    """When a container's time is over: by its own date, or by its owner's; None: never."""
    ends = (row.expires, entitlement(snapshot, row.owner).until)
    return min((at for at in ends if at is not None), default=None)


def ending_of(snapshot: Snapshot, row: Instance) -> Ending | None:
    """When a container in use is suspended, if nothing changes; None: never, as one of a single run."""
    end = None if row.throw_away else end_of(snapshot, row)
    if end is None or row.state is not InstanceState.READY:
        return None
    told = _told(snapshot, row.name)
    if told is None or told.end != end or told.at is None:
        return Ending(row.name, end, max(end, snapshot.now + _warning(row, end)))
    return Ending(row.name, end, max(end, told.until or end, told.at + _warning(row, end)), told.at)


def emptied_at(snapshot: Snapshot, row: Instance) -> datetime | None:
    """When a container goes from the trash for good: after its owner's `retain`, not before what was promised."""
    if row.state is not InstanceState.TRASHED or row.deleted_at is None:
        return None
    kept = row.deleted_at + timedelta(seconds=entitlement(snapshot, row.owner).retain_s)
    return max(kept, snapshot.kept_until.get(row.name, kept))


def concerned(snapshot: Snapshot) -> Iterator[Instance]:
    """The containers of which anything may have to be done soon, whatever groups their owners are in.

    Only of those need it be known, which may mean LDAP.
    """
    policy, now = snapshot.policy, snapshot.now
    for row in snapshot.records.instances:
        terms = list(_terms(policy, row.owner))
        if row.state is InstanceState.READY:
            ends = [row.expires, *(one.until for one in terms)]
            if row.name in snapshot.told_ends or any(at is not None and at - AHEAD <= now for at in ends):
                yield row
        elif row.state is InstanceState.TRASHED and row.deleted_at is not None:
            least = min(one.retain_s for one in terms if one.retain_s is not None)
            if row.deleted_at + timedelta(seconds=least) <= now:
                yield row


def _terms(policy: Policy, person: str) -> Iterable[Terms]:
    """Everything that the policy says anywhere and that may count for a person."""
    yield from (BASE_TERMS, policy.defaults, policy.users.get(person, NOTHING))
    yield from (group.each for group in policy.groups.values())
    for override in policy.overrides:
        yield from (override.defaults, override.users.get(person, NOTHING))
        yield from (change.each for change in override.groups.values())


def _told(snapshot: Snapshot, name: str) -> EndTold | None:
    """The last word on the end of a container; one from the future was said by a wrong clock, and does not count."""
    said = [one for one in snapshot.told_ends.get(name, ()) if one.said_at <= snapshot.now]
    return said[-1] if said else None


def _word(snapshot: Snapshot, row: Instance) -> Word | None:
    """What is to be said of an end: once for each, and when the one that was told of is put off."""
    ending, told = ending_of(snapshot, row), _told(snapshot, row.name)
    near = ending is not None and ending.end - AHEAD <= snapshot.now
    if near and ending is not None:
        return Word(row.name, ending) if told is None or told.end != ending.end else None
    if told is not None and told.end is not None:
        return Word(row.name, None, later=ending.end if ending else None)
    return None


def _warning(row: Instance, end: datetime) -> timedelta:
    """How long before its end a container's owner must have been told. Only `create` gives a container its own date."""
    if end == row.expires:
        return min(WARNING, max((end - row.created_at) / 2, timedelta(0)))
    return WARNING
