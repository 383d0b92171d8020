"""What must hold of the calendar: the skyline is a minute-by-minute count, and no time is ever promised twice."""

from __future__ import annotations

from datetime import datetime, timedelta

from calendar_worlds import A100, NOW, holding, reservation, world
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.quota import Policy
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.booking import next_room, room
from lxgpu.policy.calendar import Skyline, Span, promises
from lxgpu.policy.outlook import outlook, until_for_lease

DAY = 40
"""Minutes that the brute force looks at; nothing changes behind them."""
MINUTES = st.integers(0, DAY)
SPANS = st.lists(
    st.builds(
        lambda start, length, gpus: Span(at(start), None if length is None else at(start + length), gpus, ""),
        MINUTES,
        st.one_of(st.none(), st.integers(-1, 15)),
        st.integers(0, 3),
    ),
    max_size=8,
)


def at(minute: float) -> datetime:
    """That many minutes from now."""
    return NOW + timedelta(minutes=minute)


def counted(capacity: int, spans: list[Span], minute: int) -> int:
    """What is free in one minute, counted by hand."""
    taken = (
        span.gpus for span in spans if span.start <= at(minute) and (span.until is None or at(minute) < span.until)
    )
    return capacity - sum(taken)


@given(spans=SPANS, capacity=st.integers(0, 6), start=MINUTES, length=st.integers(1, 30))
def test_free_is_the_least_of_all_minutes(spans: list[Span], capacity: int, start: int, length: int) -> None:
    """However the bookings lie."""
    found = Skyline(capacity, spans).free(at(start), at(start + length))
    assert found == min(counted(capacity, spans, minute) for minute in range(start, start + length))
    endless = min(counted(capacity, spans, minute) for minute in range(start, 2 * DAY))
    assert Skyline(capacity, spans).free(at(start), None) == endless


@given(spans=SPANS, capacity=st.integers(0, 6), gpus=st.integers(1, 4), length=st.integers(1, 20), after=MINUTES)
def test_first_fit_is_the_first_minute_that_fits(
    spans: list[Span], capacity: int, gpus: int, length: int, after: int
) -> None:
    """Tried minute by minute; none is left out and none is too early, with and without a horizon."""

    def fits(start: int) -> bool:
        return all(counted(capacity, spans, minute) >= gpus for minute in range(start, start + length))

    line = Skyline(capacity, spans)
    fitting = next((start for start in range(after, 2 * DAY) if fits(start)), None)
    assert line.first_fit(gpus, length * 60, at(after)) == (None if fitting is None else at(fitting))
    in_time = fitting is not None and fitting + length <= DAY
    found = line.first_fit(gpus, length * 60, at(after), at(DAY))
    assert found == (at(fitting) if in_time and fitting is not None else None)


@given(spans=SPANS, capacity=st.integers(0, 6), gpus=st.integers(0, 4), start=MINUTES)
def test_lasting_is_the_first_minute_that_is_too_full(spans: list[Span], capacity: int, gpus: int, start: int) -> None:
    """Until then so many are free, and then they are not."""
    over = next((minute for minute in range(start, 2 * DAY) if counted(capacity, spans, minute) < gpus), None)
    assert Skyline(capacity, spans).lasting(gpus, at(start)) == (None if over is None else at(over))


@given(spans=SPANS, data=st.data())
def test_spans_may_come_in_any_order_and_one_after_the_other(spans: list[Span], data: st.DataObject) -> None:
    """Built at once, shuffled, or taken one by one: the same answers."""
    line, shuffled, grown = Skyline(5, spans), Skyline(5, data.draw(st.permutations(spans))), Skyline(5)
    for span in spans:
        grown.take(span)
    for minute in range(DAY + 20):
        asked = (at(minute), at(minute + 3))
        assert line.free(*asked) == shuffled.free(*asked) == grown.free(*asked)


ASKS = st.lists(st.tuples(MINUTES, st.integers(1, 15), st.integers(1, 4)), max_size=12)


def asked(number: int, start: int, length: int, gpus: int) -> Reservation:
    """A booking in minutes."""
    return reservation(f"b{number}", "alice", gpus=gpus, **{"from": start / 60, "until": (start + length) / 60})


@given(asks=ASKS, cards=st.integers(1, 4))
def test_what_is_booked_where_there_is_room_never_over_commits(asks: list[tuple[int, int, int]], cards: int) -> None:
    """Each is admitted only if there is room; the refused are offered the first time that has it."""
    snapshot = world(Policy(), have={"A100": cards})
    rows: list[Reservation] = []
    for number, (start, length, gpus) in enumerate(asks):
        snapshot = world(Policy(), have={"A100": cards}, reservations=rows)
        request = ReserveRequest("alice", "alice", gpus, length * 60)
        when = {"start": at(start), "until": at(start + length)}
        if not room(snapshot, request, pool=A100, **when):
            rows.append(asked(number, start, length, gpus))
        offered = next_room(snapshot, request, pool=A100, after=at(start), duration_s=length * 60)
        assert (offered is None) == (gpus > cards)
        if offered is not None:
            until = offered + timedelta(minutes=length)
            assert not room(snapshot, request, pool=A100, start=offered, until=until)
    spans = list(promises(world(Policy(), have={"A100": cards}, reservations=rows), "h", A100))
    assert all(counted(cards, spans, minute) >= 0 for minute in range(2 * DAY))


def lent(asks: list[tuple[int, int, int]], ends: list[int | None], cards: int) -> Snapshot:
    """A host with bookings for which there was room, and leases of others."""
    rows: list[Reservation] = []
    for number, (start, length, gpus) in enumerate(asks):
        spans = [Span(row.start or NOW, row.until, row.gpus, "") for row in rows]
        if Skyline(cards, spans).free(at(start), at(start + length)) >= gpus:
            rows.append(asked(number, start, length, gpus))
    held = [
        holding(number, f"A100-{number}", f"p{number}", **({} if end is None else {"until": end / 60}))
        for number, end in enumerate(ends[:cards])
    ]
    return world(Policy(), have={"A100": cards}, reservations=rows, held=held)


@given(asks=ASKS, ends=st.lists(st.one_of(st.none(), st.integers(1, DAY)), max_size=4), cards=st.integers(1, 5))
def test_a_lease_ends_where_the_cards_are_booked_and_not_before(
    asks: list[tuple[int, int, int]], ends: list[int | None], cards: int
) -> None:
    """Up to the answer everybody has their cards, with the lease; right then somebody would not."""
    snapshot = lent(asks, ends, cards)
    wanted = at(2 * DAY)
    end = until_for_lease(snapshot, A100, "newcomer", wanted)
    line = outlook(snapshot, A100)
    assert end == NOW or line.free(NOW, end) >= 1
    assert end == wanted or line.free(end, end) < 1
