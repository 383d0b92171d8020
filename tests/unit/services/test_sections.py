"""Sections of the daemon fail one by one, are left alone longer and longer, and are said once."""

from __future__ import annotations

import pytest
from fakes.system import FakeClock

from lxgpu.errors import LxgpuError
from lxgpu.services.sections import FATAL, LONGEST_S, Sections


@pytest.fixture
def clock():
    """Virtual time."""
    return FakeClock()


@pytest.fixture
def said():
    """What was said."""
    return []


@pytest.fixture
def sections(clock, said):
    """No section has run yet."""
    return Sections(clock.monotonic, said.append)


def away():
    """A section whose LXD is gone."""
    raise LxgpuError("unavailable", "LXD cannot be reached", why="nobody listens")


def test_a_failing_part_is_left_alone_for_twice_as_long_each_time_up_to_a_minute(sections, clock):
    """1 s, 2 s, 4 s … 60 s."""
    waits = []
    for _ in range(9):
        sections.run("tick", away)
        waits.append(sections.left_s("tick"))
        clock.sleep(waits[-1])
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60])
    assert max(waits) == LONGEST_S


def test_a_part_in_trouble_is_not_tried_before_its_time_unless_at_once(sections, clock):
    """The disk is not asked ten times a second; a poke asks all the same."""
    tried = []

    def broken():
        tried.append(clock.monotonic())
        away()

    sections.run("mail", broken)
    sections.run("mail", broken)
    assert len(tried) == 1
    sections.run("mail", broken, at_once=True)
    assert len(tried) == 2


def test_one_trouble_is_said_once_and_its_end_once(sections, clock, said):
    """An hour without LXD is two lines in the log."""
    for _ in range(60):
        sections.run("tick", away, at_once=True)
        clock.sleep(60)
    assert sections.troubles == ("tick: LXD cannot be reached; nobody listens",)
    sections.run("tick", lambda: None)
    assert said == ["tick: LXD cannot be reached; nobody listens", "tick: well again"]
    assert sections.troubles == ()
    assert sections.left_s("tick") == 0


def test_another_trouble_of_the_same_part_is_said(sections, said):
    """What changes is news."""
    sections.run("tick", away, at_once=True)
    sections.run("tick", lambda: 1 / 0, at_once=True)
    assert said[1] == "tick: a fault in lxgpu: ZeroDivisionError: division by zero"


def test_the_back_off_of_one_part_is_no_other_parts(sections):
    """Guests are served while mail is down."""
    sections.run("mail", away)
    assert sections.run("guests", lambda: 7) == 7
    assert sections.failing("mail")
    assert not sections.failing("guests")


@pytest.mark.parametrize("code", sorted(FATAL))
def test_after_a_take_over_nothing_goes_on(sections, code):
    """An error that means "you must not write any more" goes up."""

    def superseded():
        raise LxgpuError(code, "a newer inventory has taken over")

    with pytest.raises(LxgpuError, match="taken over"):
        sections.run("tick", superseded)


def test_an_interrupt_is_no_trouble_of_a_part(sections):
    """What ends the process is not swallowed."""

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sections.run("tick", interrupted)


def test_troubles_that_a_tick_lives_with_are_said_when_they_begin_and_end(sections, said):
    """Each once, whatever the others do."""
    sections.tell(["health: no NVML"])
    sections.tell(["health: no NVML", "notices: no mail"])
    sections.tell(["notices: no mail"])
    assert said == ["trouble: health: no NVML", "trouble: notices: no mail", "over: health: no NVML"]
    assert sections.troubles == ("notices: no mail",)
