"""What a job gets done, what it loses when it is stopped, and when a reclaim was false: small known sums."""

from __future__ import annotations

import sys

import pytest

from lxgpu.errors import LxgpuError
from lxgpu.simulate.engine import VAIN, VAIN_EACH, play
from lxgpu.simulate.floor import Floor
from lxgpu.simulate.jobs import Burst, Job, Lab
from lxgpu.simulate.room import Room
from lxgpu.simulate.rules.line import Fifo, Sjf


class ByTable:
    """A rule that does what a table says: (time, "start" or "stop", job)."""

    def __init__(self, floor: Floor, table: list[tuple[float, str, int]]) -> None:
        self._floor, self._table = floor, sorted(table)
        for at, _, _ in table:
            floor.wake(at)
        self.heard: list[tuple[float, str, int]] = []

    def asked(self, job: int) -> None:
        """Note it."""
        self.heard.append((self._floor.now, "asked", job))

    def ended(self, job: int) -> None:
        """Note it."""
        self.heard.append((self._floor.now, "ended", job))

    def turned(self, job: int) -> None:
        """Note it."""
        self.heard.append((self._floor.now, "turned", job))

    def decide(self) -> None:
        """What the table says for now."""
        while self._table and self._table[0][0] <= self._floor.now:
            _, what, job = self._table.pop(0)
            if what == "start":
                self._floor.start(job, ((0, self._floor.jobs[job].gpus),))
            else:
                self._floor.stop(job)


def _played(jobs, table, *, gpus=8):
    floor = Floor(jobs, Lab(1, gpus))
    rule = ByTable(floor, table)
    play(floor, rule)
    return floor, rule


def test_a_job_that_is_left_alone_delivers_what_it_asks_for():
    """A job that is left alone delivers what it asks for."""
    floor, _ = _played([Job("a", "a", 2, 5.0, 100.0)], [(10, "start", 0)])
    assert (floor.first_start[0], floor.finish[0]) == (10, 110)
    assert (floor.delivered_gpu_s, floor.lost_gpu_s) == (200, 0)


@pytest.mark.parametrize(
    ("checkpoint_s", "ran_s", "lost_s"),
    [(30, 100, 10), (30, 90, 0), (0, 100, 100), (1000, 100, 100)],
    ids=["since the last save", "just saved", "never saves", "stopped before the first save"],
)
def test_what_was_not_saved_is_lost_and_a_restart_costs(checkpoint_s, ran_s, lost_s):
    """What was not saved is lost and a restart costs."""
    job = Job("a", "a", 2, 0.0, 300.0, checkpoint_s=checkpoint_s, restart_s=7)
    floor, _ = _played([job], [(0, "start", 0), (ran_s, "stop", 0), (500, "start", 0)])
    assert floor.stops == [1]
    assert floor.lost_gpu_s == 2 * (lost_s + 7)
    assert floor.delivered_gpu_s == job.demand_gpu_s + floor.lost_gpu_s
    assert floor.finish[0] == 500 + 7 + 300 - (ran_s - lost_s)


def test_stopped_while_it_loads_its_work_again_a_job_loses_only_that():
    """Stopped while it loads its work again a job loses only that."""
    job = Job("a", "a", 1, 0.0, 300.0, checkpoint_s=30, restart_s=20)
    table = [(0, "start", 0), (60, "stop", 0), (100, "start", 0), (105, "stop", 0), (200, "start", 0)]
    floor, _ = _played([job], table)
    assert floor.lost_gpu_s == 5 + 20
    assert floor.finish[0] == 200 + 20 + 240


def test_a_holder_works_in_its_bursts_and_keeps_the_card_between_them():
    """A holder works in its bursts and keeps the card between them."""
    holder = Job("h", "h", 1, 0.0, 1000.0, bursts=(Burst(100, 50), Burst(400, 100)))
    floor, rule = _played([holder], [(0, "start", 0)])
    assert floor.finish[0] == 1000
    assert floor.delivered_gpu_s == 150
    assert [at for at, what, _ in rule.heard if what == "turned"] == [100, 150, 400, 500]


def test_work_that_finds_no_card_is_done_when_the_card_is_back():
    """Work that finds no card is done when the card is back."""
    holder = Job("h", "h", 1, 0.0, 1000.0, bursts=(Burst(100, 50), Burst(400, 100)))
    floor, _ = _played([holder], [(0, "start", 0), (160, "stop", 0), (700, "start", 0)])
    assert floor.delivered_gpu_s == 150
    assert floor.reclaimed_gpu_s == 700 - 160


@pytest.mark.parametrize(("taken_at", "false"), [(700, 0), (1000, 1), (2000, 0)])
def test_a_reclaim_is_false_when_work_comes_within_a_quarter_of_an_hour(taken_at, false):
    """A reclaim is false when work comes within a quarter of an hour."""
    holder = Job("h", "h", 1, 0.0, 9000.0, bursts=(Burst(600, 50), Burst(1700, 100), Burst(5000, 10)))
    floor, _ = _played([holder], [(0, "start", 0), (taken_at, "stop", 0)])
    assert floor.false_reclaims == false


def test_taken_idle_cards_count_as_reclaimed_until_the_hold_ends():
    """Taken idle cards count as reclaimed until the hold ends."""
    holder = Job("h", "h", 2, 0.0, 1000.0, bursts=(Burst(0, 10),))
    floor, _ = _played([holder], [(0, "start", 0), (100, "stop", 0)])
    assert floor.reclaimed_gpu_s == 2 * 900
    assert floor.finish[0] == 1000


@pytest.mark.parametrize(("taken", "counted"), [(1, 1), (3, 3), (None, 4)], ids=["one", "three", "not said: all"])
def test_of_several_idle_cards_only_those_that_were_taken_count_as_reclaimed(taken, counted):
    """Of several idle cards only those that were taken count as reclaimed, until all are back."""
    floor = Floor([Job("h", "h", 4, 0.0, 1000.0, bursts=(Burst(0, 10),))], Lab(1, 4))
    floor.start(0, ((0, 4),))
    list(floor.pass_to(100.0))
    floor.stop(0, taken)
    list(floor.pass_to(400.0))
    floor.start(0, ((0, 4),))
    assert floor.reclaimed_gpu_s == 300 * counted


def test_idle_cards_that_are_taken_later_count_from_then_on():
    """Idle cards that are taken later than others of their holder's count from then on."""
    floor = Floor([Job("h", "h", 4, 0.0, 1000.0, bursts=(Burst(0, 10),))], Lab(1, 4))
    floor.take_more(0, 1)
    floor.start(0, ((0, 4),))
    list(floor.pass_to(100.0))
    floor.stop(0, 1)
    list(floor.pass_to(300.0))
    floor.take_more(0, 2)
    list(floor.pass_to(400.0))
    floor.start(0, ((0, 4),))
    assert floor.reclaimed_gpu_s == 300 + 2 * 100


@pytest.mark.parametrize(
    ("gpus", "place"),
    [
        (1, ((1, 1),)),
        (4, ((1, 4),)),
        (5, ((0, 5),)),
        (8, ((0, 8),)),
        (16, ((0, 8), (2, 8))),
        (20, ((0, 8), (2, 8), (1, 4))),
    ],
)
def test_a_job_goes_where_it_leaves_the_fewest_cards(gpus, place):
    """A job goes where it leaves the fewest cards."""
    room = Room(range(3), 8)
    room.change(1, 8, 4)
    assert room.find(gpus) == place


def test_what_does_not_fit_is_not_placed():
    """What does not fit is not placed."""
    room = Room(range(2), 8)
    room.change(0, 8, 3)
    room.change(1, 8, 7)
    assert room.find(8) is None
    assert room.find(11) is None


def test_first_come_first_served_waits_for_the_first_one_and_the_shortest_may_overtake():
    """First come first served waits for the first one and the shortest may overtake."""
    jobs = [Job("a", "a", 2, 0, 100), Job("b", "b", 2, 1, 50), Job("c", "c", 1, 2, 10)]
    starts = {}
    for rule in (Fifo, Sjf):
        floor = Floor(jobs, Lab(1, 2))
        play(floor, rule(floor))
        starts[rule] = floor.first_start
    assert starts == {Fifo: [0, 100, 150], Sjf: [0, 110, 100]}


class InVain:
    """A rule that gives the only card to a batch job and takes it back a second later, over and over."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._at = floor, 0.0

    def asked(self, job: int) -> None:
        """It is decided on at once."""

    def ended(self, job: int) -> None:
        """Never mind."""

    def turned(self, job: int) -> None:
        """Never mind."""

    def decide(self) -> None:
        """Take it or give it each second; of a job that ended nothing is left to do."""
        if self._floor.finish[0] is not None or self._floor.now < self._at:
            return
        if self._floor.place[0]:
            self._floor.stop(0)
        else:
            self._floor.start(0, ((0, 1),))
        self._at = self._floor.now + 1
        self._floor.wake(self._at)


def test_a_rule_that_stops_a_job_for_ever_is_an_error_and_no_endless_run():
    """What was done is lost each time, since it is never saved."""
    floor = Floor([Job("a", "a", 1, 0.0, 100.0)], Lab(1, 1))
    with pytest.raises(LxgpuError, match="does not end") as caught:
        play(floor, InVain(floor))
    assert caught.value.code == "internal"
    assert floor.stops[0] < 2 * (VAIN + VAIN_EACH)


def test_who_is_stopped_often_and_saves_a_little_each_time_gets_done():
    """However often it is: a second of work is saved in each turn."""
    turns = 2 * (VAIN + VAIN_EACH)
    floor = Floor([Job("a", "a", 1, 0.0, turns + 0.5, checkpoint_s=1, restart_s=0)], Lab(1, 1))
    play(floor, InVain(floor))
    assert floor.stops[0] == turns


def test_a_job_costs_the_same_work_in_a_long_trace_as_in_a_short_one():
    """Counted in calls, where the queue stays as short: nothing looks at all jobs again and again."""
    short, long = (_calls(count) / count for count in (500, 16_000))
    assert long < 1.1 * short


def _calls(count: int) -> int:
    """How many calls it takes to play so many jobs, each done before the next one comes."""
    floor = Floor([Job(str(number), "a", 1, 10.0 * number, 5.0) for number in range(count)], Lab(1, 1))
    rule, calls = Fifo(floor), 0

    def hear(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        play(floor, rule)
    finally:
        sys.setprofile(before)
    return calls
