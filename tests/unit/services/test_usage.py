"""What became of the cards over a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dealings import GRACE, go_on, two_at_work, wish, work
from fakes.site import newcomer
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.errors import CATALOGUE, LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.services.cardhours import HOUR_US, Had
from lxgpu.services.refusal import Asked, recording
from lxgpu.services.reserve import reserve
from lxgpu.services.usage import GPU, GROUP, USER, WANT, Count, Ground, WasteView, view
from lxgpu.services.usagebook import book

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
GROUPS = {"alice": ("bio", "vision"), "bob": ("vision",)}


def at(hours: float) -> datetime:
    """So many hours after the beginning."""
    return T0 + timedelta(hours=hours)


def held(name: str, start: float, end: float | None = None, *, gpu: str = "GPU-1") -> Assignment:
    """A card held, still or until then."""
    state = AssignmentState.ACTIVE if end is None else AssignmentState.CLOSED
    closed = None if end is None else at(end)
    return Assignment(f"{name}{start}{gpu}", Slot(gpu), name, state, at(start), since=at(start), closed_at=closed)


def watched(name: str, start: float, end: float, utilization: int | None, *, gpu: str = "GPU-1") -> list[Sample]:
    """A sample a minute."""
    minutes = range(round(start * 60), round(end * 60))
    return [Sample(at(minute / 60), gpu, utilization, 0, 0, name) for minute in minutes]


def booking(name: str, kind: Kind, state: ReservationState, **more: object) -> Reservation:
    """One that is or was."""
    return Reservation(f"{name}{kind}{state}{len(more)}", name, name, kind, 1, state, T0, 3600, **more)


def made(**more: object) -> Ground:
    """What a report is made of."""
    instances = tuple(Instance(name, name, "h", InstanceState.READY, T0) for name in ("alice", "bob"))
    live = tuple(row for row in more.pop("held", ()) if row.live)
    values = {
        "records": Records(1, None, instances=instances, assignments=live),
        "past": (),
        "samples": (),
        "reservations": (),
        "events": (),
        "rules": IdleRules(),
        "groups_of": lambda person: GROUPS.get(person, ()),
    }
    return Ground(**{**values, **more})


def rows(ground: Ground, *, by: str = USER, since: float = 0, now: float = 10) -> dict[str, object]:
    """The report by name."""
    return {row.name: row for row in book(ground, since=at(since), now=at(now), zone=UTC).rows(by)}


def test_hours_are_counted_within_the_time() -> None:
    """From the attach to the close, cut to the time asked for; what is only promised is not held."""
    promised = Assignment("p", Slot("GPU-2"), "bob", AssignmentState.PLANNED, T0)
    ground = made(held=[held("alice", 1), promised], past=[held("bob", -5, 3, gpu="GPU-2"), held("bob", -9, -1)])
    found = rows(ground)
    assert (found["alice"].held_gpu_hours, found["bob"].held_gpu_hours) == (9, 3)
    assert found["all"].held_gpu_hours == 12
    assert rows(ground, since=2, now=4)["alice"].held_gpu_hours == 2


def test_use_is_known_as_far_as_somebody_looked() -> None:
    """Used, idle, and the rest not known: a reading that says nothing, and hours without any."""
    samples = [*watched("alice", 0, 2, 50), *watched("alice", 2, 5, 0), *watched("alice", 5, 6, None)]
    found = rows(made(held=[held("alice", 0)], samples=samples))["alice"]
    assert (found.used_gpu_hours, found.idle_gpu_hours, found.unknown_gpu_hours) == (2, 3, 5)
    assert found.wasted == (WasteView("alice", 3.0),)


def test_a_sample_speaks_for_a_quarter_of_an_hour_at_most() -> None:
    """A daemon that was away for hours saw nothing of them."""
    samples = [Sample(at(0), "GPU-1", 50, 0, 0, "alice"), Sample(at(9), "GPU-1", 50, 0, 0, "alice")]
    found = rows(made(held=[held("alice", 0)], samples=samples))["alice"]
    assert found.used_gpu_hours == pytest.approx(0.27, abs=0.01)


def test_samples_of_a_card_that_nobody_held_are_nobodys() -> None:
    """They count in no row."""
    found = rows(made(samples=watched("", 0, 2, 50)))
    assert found["all"].used_gpu_hours == 0


def test_by_card() -> None:
    """Hours by card; bookings, waits and refusals are not a card's, and are not shown as none."""
    ground = made(held=[held("alice", 0), held("bob", 5, gpu="GPU-2")], events=[Event(at(1), "root", "refused", "bob")])
    found = rows(ground, by=GPU)
    assert (found["GPU-1"].held_gpu_hours, found["GPU-2"].held_gpu_hours) == (10, 5)
    assert (found["GPU-1"].refused, found["GPU-1"].bookings_missed) == (None, None)
    assert found["all"].refused == 1


def test_by_group() -> None:
    """One in two groups counts in each, one in none has a row of their own kind; the total counts each once."""
    ground = made(held=[held("alice", 0), held("bob", 0, gpu="GPU-2"), held("eve", 0, gpu="GPU-3")])
    found = rows(ground, by=GROUP)
    assert {name: row.held_gpu_hours for name, row in found.items()} == {"bio": 10, "vision": 20, "": 10, "all": 30}


def test_bookings_by_how_they_ended() -> None:
    """Honoured, not come to, not kept; one that ended before the time is not of it."""
    state = ReservationState
    found = rows(
        made(
            reservations=[
                booking("alice", Kind.BOOKING, state.FINISHED, closed_at=at(1)),
                booking("alice", Kind.BOOKING, state.ACTIVE),
                booking("alice", Kind.BOOKING, state.MISSED, closed_at=at(2)),
                booking("alice", Kind.BOOKING, state.FAILED, closed_at=at(2)),
                booking("alice", Kind.BOOKING, state.CANCELLED, closed_at=at(2)),
                booking("alice", Kind.BOOKING, state.FINISHED, closed_at=at(-2), start=at(-9)),
            ]
        )
    )["alice"]
    assert (found.bookings_honoured, found.bookings_missed, found.bookings_failed) == (2, 1, 1)
    assert found.bookings == 5


def of_site(site, since: datetime) -> dict[str, object]:
    """The report of a site by person, from then until now."""
    ground = Ground(
        records=site.inventory.read(),
        past=site.inventory.closed_since(since),
        samples=site.inventory.samples(since=since),
        reservations=site.inventory.reservations_since(since),
        events=site.inventory.events(since=since),
        rules=site.policy().rules.idle,
        groups_of=lambda _person: (),
    )
    return {row.name: row for row in book(ground, since=since, now=site.clock.now(), zone=UTC).rows(USER)}


def test_waits_of_requests(tmp_path) -> None:
    """From asking to having the cards; those that still wait are counted apart, and no wait is no number."""
    site = two_at_work(tmp_path)
    newcomer(site, "carol")
    start = site.clock.now()
    reserve(site, wish("bob", seconds=40))
    go_on(site, 1)
    reserve(site, wish("carol", seconds=40))
    assert (of_site(site, start)["bob"].waiting, of_site(site, start)["carol"].waiting) == (1, 1)
    go_on(site, 8)
    for gpu in site.engine.cards:
        work(site, "bob", gpu)
        site.probe.utilization[gpu.uuid] = 90
    go_on(site, 4)
    row = next(one for one in site.inventory.read().reservations if one.owner == "bob")
    took = int((row.start - row.created_at).total_seconds())
    found = of_site(site, start)
    assert GRACE <= took <= 15
    assert (found["bob"].waits, found["bob"].wait_median_s, found["bob"].waiting) == (1, took, 0)
    assert (found["carol"].waits, found["carol"].wait_median_s, found["carol"].waiting) == (0, None, 1)
    go_on(site, 60)
    found = of_site(site, start)
    assert found["bob"].wait_longest_s == took, "also when it is over"
    assert found["carol"].waits == 1
    assert took < found["carol"].wait_longest_s <= 60
    assert of_site(site, site.clock.now())["all"].waits == 0


def test_a_booking_for_a_time_waits_for_nothing(tmp_path) -> None:
    """Who books ahead has asked for that time."""
    site = two_at_work(tmp_path)
    start = site.clock.now()
    reserve(site, wish("bob", seconds=40, at=start + timedelta(seconds=30)))
    go_on(site, 45)
    found = of_site(site, start)["bob"]
    assert (found.waits, found.waiting, found.bookings_honoured) == (0, 0, 1)


def test_refusals_of_the_time() -> None:
    """By whom it was refused to; other events are none."""
    events = [
        Event(at(1), "root", "refused", "bob"),
        Event(at(2), "root", "refused", "bob"),
        Event(at(-2), "root", "refused", "bob"),
        Event(at(3), "root", "attached", "bob"),
    ]
    assert rows(made(events=events))["bob"].refused == 2


def test_the_total_is_last_and_the_most_first() -> None:
    """Also when there is nothing."""
    ground = made(held=[held("bob", 0), held("alice", 5, gpu="GPU-2")])
    assert [row.name for row in book(ground, since=T0, now=at(10), zone=UTC).rows(USER)] == ["bob", "alice", "all"]
    assert [row.by for row in book(made(), since=T0, now=at(10), zone=UTC).rows(USER)] == ["total"]


@given(st.tuples(*[st.integers(0, 4 * HOUR_US)] * 3), st.tuples(*[st.integers(0, HOUR_US // 50)] * 3))
def test_rounding_makes_and_loses_no_hours(large, small):
    """Used, idle and unknown are held in hundredths too, none is negative, and each is off by two of them at most."""
    for used, idle, unknown in (large, small):
        count = Count()
        for had, gpu_us in zip(Had, (used, idle, unknown), strict=True):
            count.add(had, gpu_us, "alice")
        row = view(USER, "alice", count, of_people=False)
        parts = (row.used_gpu_hours, row.idle_gpu_hours, row.unknown_gpu_hours)
        assert round(sum(parts), 2) == row.held_gpu_hours
        for part, gpu_us in zip(parts, (used, idle, unknown), strict=True):
            assert part >= 0
            assert part == pytest.approx(gpu_us / HOUR_US, abs=0.02)
        assert row.held_gpu_hours == pytest.approx((used + idle + unknown) / HOUR_US, abs=0.005001)


def test_what_was_asked_for_in_vain(tmp_path):
    """Cards times hours of what was refused for want of cards; by a rule it is no lack of them."""
    site = two_at_work(tmp_path)
    start = site.clock.now()
    asked = [("no_room", Asked(3, 7200)), ("no_capacity", Asked(2)), ("over_limit", Asked(4, 7200)), ("no_room", None)]
    for code, what in asked:
        with pytest.raises(LxgpuError), recording(site, "bob", what):
            raise LxgpuError(code, "it cannot be")
    found = of_site(site, start)["bob"]
    assert (found.refused, found.refused_full, found.refused_gpu_hours) == (4, 3, 6.0)


def test_the_words_for_want_of_cards_are_in_the_catalogue():
    """A code that nobody says any more would make the case for buying disappear."""
    assert set(CATALOGUE) >= WANT


def test_whose_a_container_was_is_told_by_the_history() -> None:
    """One that is deleted has no row any more; the line of its making is older than the time asked for."""
    making = Event(at(-999), "root", "created", "big", detail={"owner": "alice"})
    moved = Event(at(2), "root", "renamed", "big", detail={"from": "big", "to": "huge"})
    ground = made(past=[held("big", 0, 1), held("huge", 3, 5)], events=[moved, making])
    found = rows(ground)
    assert {name: row.held_gpu_hours for name, row in found.items()} == {"alice": 3, "all": 3}
