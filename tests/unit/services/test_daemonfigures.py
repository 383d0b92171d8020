"""What a daemon counts of itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.services.daemonfigures import BOUNDS_S, OTHER, DaemonFigures, Figures


def test_nothing_has_happened_yet():
    """No tick, no longest one."""
    found = Figures().view(failures={})
    assert (found.ticks, found.last_s) == (0, None)
    assert found.within == (0,) * len(BOUNDS_S)
    assert DaemonFigures().within == (), "of a file that says nothing of it"


@given(st.lists(st.floats(0, 500), max_size=50))
def test_ticks_are_counted_by_how_long_they_took(took):
    """Each bound counts all that were no longer, the very bound included."""
    figures = Figures()
    for seconds in took:
        figures.ticked(seconds)
    found = figures.view(failures={})
    assert found.ticks == len(took)
    assert list(found.within) == [sum(one <= bound for one in took) for bound in BOUNDS_S]


def test_failures_of_both_kinds_are_one_table():
    """Those of a tick's sections and those of the daemon's own."""
    figures = Figures()
    figures.failed(["notices", "health"])
    figures.failed(["notices"])
    assert figures.view(failures={"tick": 3, "notices": 1}).failures == {"health": 1, "notices": 3, "tick": 3}


def test_names_are_bounded():
    """However many there are, they fill no memory; none is lost."""
    figures = Figures()
    for number in range(1000):
        figures.event(f"kind-{number}")
    found = figures.view(failures={}).events
    assert len(found) == 101
    assert sum(found.values()) == 1000
    assert found[OTHER] == 900
