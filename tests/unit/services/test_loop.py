"""The daemon's rhythm in virtual time: on time, at once when poked, never busy, never drifting."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from fakes.system import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.services.loop import EVERY_S, LEAST_S, Next, loop, pause_s

T0 = FakeClock().now()


class Rhythm:
    """A loop in virtual time: when each turn began (seconds)."""

    def __init__(self, turns, *, took_s=0.0, pokes=(), every_s=EVERY_S, after=None):
        self.clock = FakeClock()
        self.began = []
        self.pokes = list(pokes)
        self.asked = False
        self._turns, self._took_s = turns, took_s
        self._after = after or (lambda _rhythm: Next())
        self._every_s = every_s

    def turn(self):
        """One turn; the last one asks for the end."""
        self.began.append(self.clock.monotonic())
        self.clock.sleep(self._took_s)
        self.asked = len(self.began) == self._turns
        return self._after(self)

    def wait(self, seconds):
        """Wait, or until the next poke."""
        assert seconds >= LEAST_S
        now = self.clock.monotonic()
        poke = next((at for at in self.pokes if at <= now + seconds), None)
        if poke is not None:
            self.pokes.remove(poke)
            seconds = max(poke - now, 0.0)
        self.clock.sleep(seconds)

    def run(self):
        """All of it."""
        loop(self.turn, clock=self.clock, wait=self.wait, stopping=lambda: self.asked, every_s=lambda: self._every_s)
        return self


def test_turns_begin_at_even_distances_however_long_they_take():
    """What a turn takes is part of its period, so a thousand turns later the rhythm stands where it should."""
    began = Rhythm(1001, took_s=3.0).run().began
    assert began[-1] == pytest.approx(1000 * EVERY_S)


def test_a_turn_that_takes_longer_than_the_period_is_followed_by_a_short_rest():
    """The loop never becomes a busy one."""
    began = Rhythm(5, took_s=25.0).run().began
    assert [later - sooner for sooner, later in itertools.pairwise(began)] == pytest.approx([25.1] * 4)


def test_what_is_due_sooner_is_waited_for_no_longer():
    """A grace that ends in 2.5 s is dealt with in 2.5 s."""
    rhythm = Rhythm(3, after=lambda one: Next(one.clock.now() + timedelta(seconds=2.5))).run()
    assert rhythm.began == pytest.approx([0, 2.5, 5.0])


def test_what_was_due_already_does_not_spin_the_loop():
    """A tick that says "at once" for ever, by some fault, costs ten turns a second at most."""
    rhythm = Rhythm(11, after=lambda one: Next(one.clock.now() - timedelta(hours=1))).run()
    assert rhythm.began[-1] == pytest.approx(10 * LEAST_S)


def test_a_poke_begins_the_next_turn_at_once():
    """`reserve` is not made to wait for the next look."""
    assert Rhythm(3, pokes=[4.0]).run().began == pytest.approx([0, 4.0, 14.0])


def test_pokes_without_end_are_no_busy_loop():
    """A thousand pokes in a row are turns with a distance."""
    began = Rhythm(50, pokes=[0.0] * 1000).run().began
    assert began[-1] == pytest.approx(49 * LEAST_S)


def test_a_failed_turn_says_itself_when_to_try_again():
    """The back-off counts in place of all else, also where it is shorter than the period."""
    assert Rhythm(3, after=lambda _: Next(in_s=1.0)).run().began == pytest.approx([0, 1.0, 2.0])
    assert Rhythm(3, after=lambda _: Next(in_s=60.0)).run().began == pytest.approx([0, 60.0, 120.0])


@pytest.mark.parametrize("moved", [3600.0, -3600.0])
def test_a_wall_clock_that_was_set_changes_no_rhythm(moved):
    """The distance of turns is counted by the clock that never jumps."""

    def after(rhythm):
        if len(rhythm.began) == 2:
            rhythm.clock.jump(moved)
        return Next()

    assert Rhythm(5, after=after).run().began == pytest.approx([0, 10, 20, 30, 40])


@given(
    at=st.none() | st.floats(-1e6, 1e6),
    took_s=st.floats(0, 1e5),
    every_s=st.floats(1, 3600),
    in_s=st.none() | st.floats(0, 60),
)
def test_no_pause_is_shorter_than_the_least_or_longer_than_the_period(at, took_s, every_s, in_s):
    """Whatever a tick answers."""
    after = Next(None if at is None else T0 + timedelta(seconds=at), in_s=in_s)
    seconds = pause_s(after, now=T0, took_s=took_s, every_s=every_s)
    assert LEAST_S <= seconds <= max(every_s, in_s or 0.0, LEAST_S)


def test_asked_to_end_it_does_not_wait_any_more():
    """The turn in hand is the last one, and the wait after it is left out."""
    rhythm = Rhythm(1)
    rhythm.wait = lambda _seconds: pytest.fail("it waited")
    assert rhythm.run().began == [0]
