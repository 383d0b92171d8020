"""The desk looks up what it could also count: with the plain way everything comes out the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import pytest
from desk_worlds import PEOPLE, POLICY, site
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import OPEN, Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy import supplying
from lxgpu.policy.agenda import decide_tick, work_out
from lxgpu.policy.desk import Desk
from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.lookup import with_instance, without_instance
from lxgpu.policy.tables import Groups, Once, Working
from lxgpu.policy.tally import recount, tally

SITES = st.integers(0, 2**40).map(lambda seed: site(random.Random(seed)))  # noqa: S311 -- not for secrets


class PlainDesk(Desk):
    """Each question looks at every row, and each look makes tables of which nothing is known."""

    @property
    def snapshot(self) -> Snapshot:
        """Made anew each time."""
        rows = tuple(self._assignments.rows.values())
        waiting = tuple(row for row in self.reservations.values() if row.open)
        return replace(self.given, records=replace(self.given.records, assignments=rows, reservations=waiting))

    def mine(self, states: Collection[ReservationState] = OPEN) -> list[Reservation]:
        """By scanning."""
        rows = sorted(self.reservations.values(), key=lambda row: row.id)
        return [row for row in rows if row.state in states and row.host in {"", self.given.seen.host}]

    def lanes(self) -> dict[tuple[str, str], list[Reservation]]:
        """By scanning."""
        rows = [row for row in self.mine((ReservationState.WAITING,)) if row.kind is Kind.REQUEST]
        rows = sorted((row for row in rows if not row.no_warning), key=lambda row: (row.created_at, row.id))
        lanes = {(row.owner, row.class_name) for row in rows}
        return {lane: [row for row in rows if (row.owner, row.class_name) == lane] for lane in lanes}

    def claims(self) -> list[Reservation]:
        """By scanning."""
        return [row for row in self.mine() if row.kind is Kind.RETURN]

    def ordered(self) -> list[Reservation]:
        """By scanning."""
        return [row for row in self.mine((ReservationState.WAITING,)) if row.no_warning]

    def unmet(self) -> list[Reservation]:
        """All, since each is asked about."""
        return self.mine()

    def here(self) -> list[Assignment]:
        """By scanning."""
        seen = self.given.seen
        rows = sorted(self._assignments.rows.values(), key=lambda row: row.id)
        homes = {card.uuid: card.host for card in self.given.records.cards}
        return [row for row in rows if homes.get(row.slot.gpu) == seen.host or seen.gpu(row.slot.gpu)]

    def live(self, reservation: str) -> list[Assignment]:
        """By scanning."""
        rows = [row for row in self._assignments.rows.values() if row.reservation == reservation and row.live]
        return sorted(rows, key=lambda row: row.slot)

    def planned(self, reservation: str) -> list[Assignment]:
        """By scanning."""
        rows = [row for row in self._assignments.rows.values() if row.reservation == reservation]
        return sorted((row for row in rows if row.state is AssignmentState.PLANNED), key=lambda row: row.slot)

    def held_by(self, instance: str) -> Collection[Assignment]:
        """By scanning."""
        return [row for row in self._assignments.rows.values() if row.instance == instance and row.live]

    def successor(self, slot: Slot) -> Assignment | None:
        """By scanning."""
        rows = (row for row in self._assignments.rows.values() if row.state is AssignmentState.PLANNED)
        return next((row for row in rows if row.slot == slot), None)

    def holder(self, slot: Slot) -> Assignment | None:
        """By scanning."""
        return next((row for row in self._assignments.rows.values() if row.slot == slot and row.live), None)


@settings(max_examples=400)
@given(snapshot=SITES)
def test_the_agenda_is_the_same_as_by_looking_at_everything(snapshot: Snapshot) -> None:
    """Rows, promises taken away, history, takings, givings and the next look."""
    assert decide_tick(snapshot) == work_out(PlainDesk(snapshot)).agenda()


@settings(max_examples=400)
@given(snapshot=SITES)
def test_nobody_is_passed_over_because_another_failed_who_is_not_their_like(snapshot: Snapshot) -> None:
    """Where nothing is remembered of those who failed, each is asked about, and the same ones get their cards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supplying, "_shape", lambda *_row_and_need: object())
        plain = decide_tick(snapshot)
    assert decide_tick(snapshot) == plain


@settings(max_examples=200)
@given(snapshot=SITES)
def test_what_people_have_is_handed_on_as_counting_every_row_says(snapshot: Snapshot) -> None:
    """After a whole look, and when an instance is gone or is back."""
    tally(snapshot.records)
    records = work_out(Desk(snapshot)).snapshot.records
    without = replace(records, instances=without_instance(records.instances, "ann"))
    back = replace(records, instances=with_instance(without.instances, records.instances[0]))
    rows = [(row, row) for row in records.assignments if row.instance == "ann"]
    recount(records, without, rows)
    recount(without, back, rows)
    for one in (records, without, back):
        found, counted = tally(one), tally(replace(one, assignments=(*one.assignments,)))
        assert (found.had, found.had_in, found.kept) == (counted.had, counted.had_in, counted.kept)
        assert {who: rows for who, rows in found.live.items() if rows} == counted.live


@settings(max_examples=200)
@given(snapshot=SITES)
def test_rows_of_other_hosts_are_left_alone_and_change_nothing_but_what_their_holders_count(
    snapshot: Snapshot,
) -> None:
    """What is bound elsewhere is neither written nor in the way; without it, everything is the same.

    But for what limits say that run over all hosts: what one has booked elsewhere counts for their own bookings here,
    and for those of their group.
    """
    records, agenda = snapshot.records, decide_tick(snapshot)
    before = {row.id: row.host for row in records.reservations}
    for row in (*agenda.rows, *agenda.drops):
        if isinstance(row, Reservation):
            assert before.get(row.id, "h") in {"", "h"}
        if isinstance(row, Assignment):
            assert row.slot.gpu.startswith("g")
    ours = tuple(row for row in records.reservations if row.host in {"", "h"})
    theirs = {row.id: row for row in records.reservations if row not in ours}
    alone = replace(snapshot, records=replace(records, reservations=ours))
    bound, together = _with_bookings(theirs.values()), {*POLICY.groups["vision"].members}
    if bound & together:
        bound |= together
    if not any(row.reservation in theirs for row in records.assignments) and not bound & _with_bookings(ours):
        assert decide_tick(alone) == agenda


def _with_bookings(rows: Iterable[Reservation]) -> set[str]:
    return {row.owner for row in rows if row.kind is Kind.BOOKING}


@given(snapshot=SITES)
def test_what_people_keep_is_what_counting_every_row_says(snapshot: Snapshot) -> None:
    """For whoever looks: their own promises leave a slot where it is."""
    rows, owners = snapshot.records.assignments, {row.name: row.owner for row in snapshot.records.instances}
    promised = {row.slot: row.reservation for row in rows if row.state is AssignmentState.PLANNED}
    for looks in ("", *(row.id for row in snapshot.records.reservations)):
        ledger = Guarantees(snapshot, looks)
        kept = [row for row in rows if row.state in KEPT and (row.slot not in promised or promised[row.slot] == looks)]
        held = Counter(owners[row.instance] for row in kept if row.instance in owners)
        assert [ledger.held(person) for person in PEOPLE] == [held[person] for person in PEOPLE]
        together = sum(held[name] for name in POLICY.groups["vision"].members)
        assert ledger.group_beyond("vision") == together - 2


@dataclass(frozen=True)
class Thing:
    """A row with a color, of which grey ones are over and white ones are in no group."""

    id: str
    color: str


THINGS = st.builds(Thing, st.sampled_from("abcde"), st.sampled_from(("red", "blue", "grey", "white")))
STEPS = st.lists(st.tuples(st.sampled_from(("put", "put", "drop", "look")), THINGS), max_size=25)


@settings(max_examples=300)
@given(first=st.lists(THINGS, max_size=5, unique_by=lambda row: row.id), steps=STEPS)
def test_a_table_that_is_worked_on_hands_on_what_would_be_found_in_it(
    first: list[Thing], steps: list[tuple[str, Thing]]
) -> None:
    """At every look: the rows in order, by id and by group; and the tables before it are as they were."""
    by_id: Once[tuple[Thing, ...], Mapping[str, Thing]] = Once(lambda rows: {row.id: row for row in rows})
    by_color = Groups[Thing, str](lambda row: None if row.color in {"white", "grey"} else row.color)
    start = tuple(row for row in first if row.color != "grey")
    table = Working(start, by_id, (by_color,), living=lambda row: row.color != "grey")
    plain = {row.id: row for row in start}
    looks: list[tuple[Thing, ...]] = [start]
    for do, row in steps:
        if do == "put":
            table.put(row)
            plain[row.id] = row
        elif do == "drop" and row.id in plain:
            table.drop(row.id)
            del plain[row.id]
        living = [one for one in plain.values() if one.color != "grey"]
        for color in ("red", "blue"):
            assert set(table.of(by_color, color)) == {one for one in living if one.color == color}
        if do == "look":
            assert table.shown() == tuple(living)
            looks.append(table.shown())
    for rows in looks:
        assert by_id(rows) == {row.id: row for row in rows}
        colors = {row.color for row in rows} - {"white"}
        assert {color: set(found) for color, found in by_color(rows).items()} == {
            color: {row for row in rows if row.color == color} for color in colors
        }


@settings(max_examples=400)
@given(snapshot=SITES)
def test_a_slot_has_one_holder_and_one_successor_after_every_decision(snapshot: Snapshot) -> None:
    """Also where a reservation that lost one of its promises looks for another card of work that it has warned."""
    rows = work_out(Desk(snapshot)).snapshot.records.assignments
    counts = Counter((row.slot, row.live) for row in rows if row.live or row.state is AssignmentState.PLANNED)
    before = Counter((row.slot, row.live) for row in snapshot.records.assignments)
    assert {key for key, count in counts.items() if count > max(1, before[key])} == set()
