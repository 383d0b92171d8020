"""What must hold of the queue: one order, nobody twice, and nobody promised is delayed by those who go first."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby

from calendar_worlds import A100, NOW, T4, holding, reservation, world
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Assignment
from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.backfill import backfill, estimates
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.outlook import Place, stocks
from lxgpu.policy.queue import in_order

POLICY = Policy(
    classes={
        "normal": PriorityClass("normal", priority=50, min_runtime_s=600, grace_s=60, term_wait_s=60),
        "low": PriorityClass("low", priority=10),
    },
    defaults=Terms(limit=8),
    users={"ann": Terms(guaranteed=1), "bob": Terms(weight=3.0)},
    groups={"vision": Group("vision", members=("cid",), total=Total(guaranteed=2))},
)
PEOPLE = ("ann", "bob", "cid", "dan")
HAVE = {"A100": 3, "T4": 2}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "who": st.sampled_from(PEOPLE),
            "kind": st.sampled_from(("request", "request", "request", "return")),
            "gpus": st.integers(1, 4),
            "for": st.integers(1, 6),
            "asked": st.integers(-5, -1),
            "class": st.sampled_from(("normal", "low")),
            "model": st.sampled_from(("*", "A100", "T4")),
        }
    ),
    max_size=10,
)
HELD = st.lists(
    st.tuples(st.sampled_from([f"A100-{n}" for n in range(3)] + ["T4-0", "T4-1"]), st.none() | st.integers(-2, 6)),
    max_size=5,
    unique_by=lambda item: item[0],
)
BOOKED = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4)), max_size=3)


def snapshot_of(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], booked: list[tuple[int, int]] | None = None
) -> tuple[Snapshot, list[Reservation]]:
    """A host with some leases of somebody else, and one-card bookings; and the rows that wait."""
    waiting = [reservation(f"r{number}", **row) for number, row in enumerate(rows)]  # type: ignore[arg-type]
    leases: list[Assignment] = [
        holding(number, card, "zoe", **({} if end is None else {"until": end}))
        for number, (card, end) in enumerate(held)
    ]
    bookings: list[Reservation] = []
    for number, (start, length) in enumerate(booked or ()):
        bookings.append(reservation(f"b{number}", f"yan{number}", **{"from": start, "until": start + length}))
    return world(POLICY, have=HAVE, reservations=[*waiting, *bookings], held=leases), waiting


@given(rows=ROWS, held=HELD, data=st.data())
def test_the_order_has_everybody_once_whatever_way_they_are_listed(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    """The same rows, shuffled, come in the same order."""
    snapshot, waiting = snapshot_of(rows, held)
    order = in_order(snapshot, waiting)
    assert sorted(row.id for row in order) == sorted(row.id for row in waiting)
    assert in_order(snapshot, data.draw(st.permutations(waiting))) == order


@given(rows=ROWS, held=HELD)
def test_people_come_in_the_order_they_asked_and_classes_by_priority(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]]
) -> None:
    """Among the claims, and among those behind them; guarantees alone go before."""
    snapshot, waiting = snapshot_of(rows, held)
    order = in_order(snapshot, waiting)
    claims = [row for row in order if row.kind is Kind.RETURN]
    assert claims == sorted(claims, key=lambda row: (row.created_at, row.id))
    behind = list(order[order.index(claims[-1]) + 1 :]) if claims else []
    priorities = [POLICY.classes[row.class_name].priority for row in behind]
    assert priorities == sorted(priorities, reverse=True)
    for _, same in groupby(
        sorted(behind, key=lambda row: (row.owner, row.class_name)), lambda row: (row.owner, row.class_name)
    ):
        ages = [(row.created_at, row.id) for row in same]
        assert ages == sorted(ages)


@given(rows=ROWS, held=HELD, booked=BOOKED)
def test_what_begins_now_fits_beside_all_that_is_booked_and_held(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], booked: list[tuple[int, int]]
) -> None:
    """At no instant more cards than there are, but where there were too many before."""
    snapshot, waiting = snapshot_of(rows, held, booked)
    before, after = stocks(snapshot), stocks(snapshot)
    for start in backfill(snapshot, in_order(snapshot, waiting)).starts:
        after[start.place].take(Span(NOW, start.until, start.reservation.gpus, ""))
    for place, line in after.items():
        for hour in range(30):
            at = NOW + timedelta(hours=hour / 2)
            assert line.free(at, at) >= min(0, before[place].free(at, at))


@given(rows=ROWS, held=HELD, booked=BOOKED)
def test_nobody_behind_delays_the_first_that_cannot_begin(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], booked: list[tuple[int, int]]
) -> None:
    """With all that began after it, the first one still finds its cards at the time that was kept for it."""
    snapshot, waiting = snapshot_of(rows, held, booked)
    order = in_order(snapshot, waiting)
    found = backfill(snapshot, order)
    if found.shadow is None or found.shadow.at is None:
        return
    row, place = found.shadow.reservation, found.shadow.place
    line = stocks(snapshot)[place]
    for start in found.starts:
        if start.place == place:
            line.take(Span(NOW, start.until, start.reservation.gpus, ""))
    least = 600 + 60 + 60 + 120 if row.class_name == "normal" else 3600 + 300 + 120 + 120
    needed = min(row.duration_s, least) if row.kind is Kind.RETURN else row.duration_s
    assert line.free(found.shadow.at, found.shadow.at + timedelta(seconds=needed)) >= row.gpus


@given(rows=ROWS, held=HELD, booked=BOOKED)
def test_nobody_is_left_waiting_for_cards_that_nobody_wants(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], booked: list[tuple[int, int]]
) -> None:
    """The first one in the order begins if its cards are free for its time."""
    snapshot, waiting = snapshot_of(rows, held, booked)
    order = in_order(snapshot, waiting)
    if not order or order[0].kind is not Kind.REQUEST:
        return
    first, lines = order[0], stocks(snapshot)
    wanted = [Place("h", model) for model in (A100, T4) if first.model == "*" or first.model in model]
    until = NOW + timedelta(seconds=first.duration_s)
    possible = any(lines[place].free(NOW, until) >= first.gpus for place in wanted)
    assert possible == (first in [start.reservation for start in backfill(snapshot, order).starts])


@given(rows=ROWS, held=HELD, booked=BOOKED)
def test_a_repeated_pass_says_the_same_and_estimates_are_never_before_what_is_possible(
    rows: list[dict[str, object]], held: list[tuple[str, int | None]], booked: list[tuple[int, int]]
) -> None:
    """Asking changes nothing; an estimate is in the future and one for whom cards suffice alone."""
    snapshot, waiting = snapshot_of(rows, held, booked)
    order = in_order(snapshot, waiting)
    assert backfill(snapshot, order) == backfill(snapshot, order)
    found = estimates(snapshot, order)
    assert [found[row.id][0] for row in order] == list(range(1, len(order) + 1))
    alone = {row.id: estimates(snapshot, [row])[row.id][1] for row in order}
    for row in order:
        at = found[row.id][1]
        assert at is None or (alone[row.id] is not None and NOW <= alone[row.id] <= at)


def test_a_skyline_of_nothing_has_nothing() -> None:
    """The brute force above would not notice a host without cards."""
    assert Skyline(0).first_fit(1, 1, NOW) is None
