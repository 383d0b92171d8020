"""What people may have no more since the policy was changed: nothing is taken for it, and nothing is added; pure.

Who is over a limit gets no more cards. Bookings that are too much are flagged, and the newest are cut when their cards
would be got ready: by then the policy may have been changed again, or a booking given up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.plan import Reason
from lxgpu.model.request import GpuRequest, Need, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.policy import words
from lxgpu.policy.admission import admit, entitlement
from lxgpu.policy.bounds import Asked, over_limits
from lxgpu.policy.closing import end
from lxgpu.policy.desk import Desk
from lxgpu.policy.lookup import all_hosts, bookings_by_owner, by_instance, instances_by_owner
from lxgpu.policy.pending import ahead_s

SURPLUS = "surplus"
"""The mark in `Reservation.told` of a booking that will be cut: how many cards it may keep."""


class Grants:
    """Who may be given more cards in this decision. What is not had yet is no title: the policy of now counts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: defaultdict[str, dict[tuple[str, int], bool]] = defaultdict(dict)

    def allow(self, row: Reservation, need: Need) -> bool:
        """Whether one that waits for its turn may have what it lacks; a booking whose time has come was admitted."""
        if row.state is not ReservationState.WAITING:
            return True
        known, key = self._known[row.owner], (row.class_name, need.gpus)
        if key not in known:
            wanted = GpuRequest(row.instance, row.owner, more=need.gpus, class_name=row.class_name)
            known[key] = not admit(self._desk.snapshot, wanted)
        return known[key]

    def refused(self, row: Reservation) -> bool:
        """Whether one that has nothing yet asks for what its owner was refused before: that needs no long look."""
        return (
            row.state is ReservationState.WAITING
            and self._known[row.owner].get((row.class_name, row.gpus)) is False
            and not self._desk.held_by(row.instance)
            and not self._desk.kept_for(row.id)
        )

    def forget(self, owner: str) -> None:
        """Something was promised to somebody, who has more than before, and whose groups have."""
        policy, now = self._desk.given.policy, self._desk.now
        bounded = [name for name in policy.groups if policy.group_total(name, now).limit is not None]
        if bounded:
            self._known.clear()
        else:
            self._known.pop(owner, None)


def trim_surplus(desk: Desk) -> None:
    """Every booking ahead that is more than may be had at its time: flagged, or cut when it is due."""
    ahead = [row for row in desk.mine((ReservationState.SCHEDULED,)) if row.kind is Kind.BOOKING]
    bounds = _Bounds(desk, ahead) if ahead else None
    lead = timedelta(seconds=ahead_s(desk.given.policy))
    for row in sorted(ahead, key=_age):
        if bounds is None or row.start is None or row.until is None:
            continue
        left, why = bounds.left(row, row.start, row.until)
        if left == row.gpus:
            _unflag(desk, row)
        elif row.start - lead <= desk.now:
            _trim(desk, row, left, why)
        else:
            _flag(desk, row, left, why, at=row.start - lead)


class _Bounds:
    """How many cards of each booking its owner may have, those that were booked before it and what runs counted."""

    def __init__(self, desk: Desk, ahead: list[Reservation]) -> None:
        self._desk, self._ahead = desk, ahead
        self._most: dict[str, int] = {}

    def left(self, row: Reservation, start: datetime, until: datetime) -> tuple[int, str]:
        """How many of its cards fit, and why not all."""
        if self._surely(row):
            return row.gpus, ""
        newer = frozenset(one.id for one in self._ahead if _age(one) >= _age(row))
        why = ""
        for gpus in range(row.gpus, 0, -1):
            reason = self._against(row, gpus, ((start, until),), newer)
            if reason is None:
                return gpus, why
            why = why or reason.text
        return 0, why

    def _against(
        self, row: Reservation, gpus: int, times: tuple[tuple[datetime, datetime], ...], but: frozenset[str]
    ) -> Reason | None:
        request = ReserveRequest(
            instance=row.instance,
            owner=row.owner,
            gpus=gpus,
            duration_s=row.duration_s,
            model=row.pool or row.model,
            class_name=row.class_name,
        )
        return next(over_limits(self._desk.snapshot, Asked(request, row.class_name, times, but)), None)

    def _surely(self, row: Reservation) -> bool:
        """Whether all that its owner and their groups have and booked is no more than they may have at any time."""
        policy, now = self._desk.given.policy, self._desk.now
        if policy.overrides:
            return False
        entitled = entitlement(self._desk.given, row.owner)
        chosen = policy.classes.get(row.class_name)
        limits = [entitled.limit, *([chosen.max_gpus] if chosen and chosen.max_gpus is not None else ())]
        totals = {name: policy.group_total(name, now).limit for name in entitled.groups}
        bounded = {name: limit for name, limit in totals.items() if limit is not None}
        return self._had(row.owner) <= min(limits) and (not bounded or self._together(bounded))

    def _together(self, bounded: Mapping[str, int]) -> bool:
        count: Counter[str] = Counter()
        there = all_hosts(self._desk.given.records)
        for person in {row.owner for one in there for rows in (one.instances, one.reservations) for row in rows}:
            for name in bounded.keys() & set(entitlement(self._desk.given, person).groups):
                count[name] += self._had(person)
        return all(count[name] <= limit for name, limit in bounded.items())

    def _had(self, person: str) -> int:
        """All cards that somebody holds and has booked, whenever that is."""
        if person not in self._most:
            self._most[person] = sum(_most(one, person) for one in all_hosts(self._desk.given.records))
        return self._most[person]


def _most(records: Records, person: str) -> int:
    held = by_instance(records.assignments)
    mine = instances_by_owner(records.instances).get(person, ())
    booked = bookings_by_owner(records.reservations).get(person, ())
    return sum(row.gpus for row in booked) + sum(len(held.get(row.name, ())) for row in mine)


def _age(row: Reservation) -> tuple[datetime, datetime, str]:
    return (row.created_at, row.start or row.created_at, row.id)


def _flag(desk: Desk, row: Reservation, left: int, why: str, *, at: datetime) -> None:
    desk.look_again(at)
    if row.told.get(SURPLUS) == left:
        return
    desk.put(replace(row, told={**row.told, SURPLUS: left}))
    _write(desk, "flagged", row, left, why, at=at)


def _trim(desk: Desk, row: Reservation, left: int, why: str) -> None:
    told = {name: value for name, value in row.told.items() if name != SURPLUS}
    _write(desk, "trimmed", row, left, why, at=None)
    if left:
        desk.put(replace(row, gpus=left, told=told))
    else:
        end(desk, row, ReservationState.CANCELLED, "more than its owner may have")


def _unflag(desk: Desk, row: Reservation) -> None:
    if SURPLUS in row.told:
        desk.put(replace(row, told={name: value for name, value in row.told.items() if name != SURPLUS}))
        desk.note("unflagged", row.instance, rule="over_limit", detail={"reservation": row.id, "gpus": row.gpus})


def _write(desk: Desk, kind: str, row: Reservation, left: int, why: str, *, at: datetime | None) -> None:
    facts = {"reservation": row.id, "gpus": left, "were": row.gpus, "why": why, "at": words.instant(at)}
    desk.note(kind, row.instance, rule="over_limit", detail=facts)
    told = {**words.booking(row), "left": left, "at": words.instant(at), "why": why}
    desk.tell("booking_trimmed", row.instance, about=row.id, facts=told)
