"""Parts of the daemon fail one by one, are left alone longer and longer, and are said once."""

from __future__ import annotations

import pytest
from fakes.system import FakeClock

from lxgpu.errors import LxgpuError
from lxgpu.services.parts import FATAL, LONGEST_S, Parts


@pytest.fixture
def clock():
    """Virtual time."""
    return FakeClock()


@pytest.fixture
def said():
    """What was said."""
    return []


@pytest.fixture
def parts(clock, said):
    """No part has run yet."""
    return Parts(clock.monotonic, said.append)


def away():
    """A part whose LXD is gone."""
    raise LxgpuError("unavailable", "LXD cannot be reached", why="nobody listens")


def test_a_failing_part_is_left_alone_for_twice_as_long_each_time_up_to_a_minute(parts, clock):
    """1 s, 2 s, 4 s … 60 s."""
    waits = []
    for _ in range(9):
        parts.run("tick", away)
        waits.append(parts.left_s("tick"))
        clock.sleep(waits[-1])
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
    assert max(waits) == LONGEST_S


def test_a_part_in_trouble_is_not_tried_before_its_time_unless_at_once(parts, clock):
    """The disk is not asked ten times a second; a poke asks all the same."""
    tried = []

    def broken():
        tried.append(clock.monotonic())
        away()

    parts.run("mail", broken)
    parts.run("mail", broken)
    assert len(tried) == 1
    parts.run("mail", broken, at_once=True)
    assert len(tried) == 2


def test_one_trouble_is_said_once_and_its_end_once(parts, clock, said):
    """An hour without LXD is two lines in the log."""
    for _ in range(60):
        parts.run("tick", away, at_once=True)
        clock.sleep(60)
    assert parts.troubles == ("tick: LXD cannot be reached; nobody listens",)
    parts.run("tick", lambda: None)
    assert said == ["tick: LXD cannot be reached; nobody listens", "tick: well again"]
    assert parts.troubles == ()
    assert parts.left_s("tick") == 0


def test_another_trouble_of_the_same_part_is_said(parts, said):
    """What changes is news."""
    parts.run("tick", away, at_once=True)
    parts.run("tick", lambda: 1 / 0, at_once=True)
    assert said[1] == "tick: a fault in lxgpu: ZeroDivisionError: division by zero"


def test_the_back_off_of_one_part_is_no_other_parts(parts):
    """Guests are served while mail is down."""
    parts.run("mail", away)
    assert parts.run("guests", lambda: 7) == 7
    assert parts.failing("mail")
    assert not parts.failing("guests")


@pytest.mark.parametrize("code", sorted(FATAL))
def test_after_a_take_over_nothing_goes_on(parts, code):
    """An error that means "you must not write any more" goes up."""

    def superseded():
        raise LxgpuError(code, "a newer inventory has taken over")

    with pytest.raises(LxgpuError, match="taken over"):
        parts.run("tick", superseded)


def test_an_interrupt_is_no_trouble_of_a_part(parts):
    """What ends the process is not swallowed."""

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.run("tick", interrupted)


def test_troubles_that_a_tick_lives_with_are_said_when_they_begin_and_end(parts, said):
    """Each once, whatever the others do."""
    parts.tell(["health: no NVML"])
    parts.tell(["health: no NVML", "notices: no mail"])
    parts.tell(["notices: no mail"])
    assert said == ["trouble: health: no NVML", "trouble: notices: no mail", "over: health: no NVML"]
    assert parts.troubles == ("notices: no mail",)
