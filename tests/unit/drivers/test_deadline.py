"""Work that may never come back."""

from __future__ import annotations

import threading

import pytest

from lxgpu.drivers.deadline import Patience, TooLateError


@pytest.fixture
def gate():
    """Holds work up until it is set; set at the end, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


def test_work_in_time_gives_its_result():
    """The value, None too, comes back as it is."""
    assert Patience().run("a", lambda: 7, timeout_s=5) == 7
    assert Patience().run("a", lambda: None, timeout_s=5) is None


def test_an_error_comes_to_the_caller():
    """What the work raises is raised where it was asked for."""
    with pytest.raises(ZeroDivisionError):
        Patience().run("a", lambda: 1 // 0, timeout_s=5)


def test_hanging_work_is_given_up_and_not_tried_again_meanwhile(gate):
    """While one hangs, no second thread hangs at the same thing; other things go on."""
    patience, before = Patience(), threading.active_count()
    for _ in range(5):
        with pytest.raises(TooLateError):
            patience.run("a", gate.wait, timeout_s=0.05)
    assert threading.active_count() == before + 1
    assert patience.run("b", lambda: 1, timeout_s=5) == 1


def test_after_it_came_back_it_is_tried_again(gate):
    """A thing that hung once is not given up for good."""
    patience = Patience()
    with pytest.raises(TooLateError):
        patience.run("a", gate.wait, timeout_s=0.05)
    gate.set()
    stuck = [thread for thread in threading.enumerate() if thread.name == "lxgpu-look-a"]
    for thread in stuck:
        thread.join(5)
    assert patience.run("a", lambda: 1, timeout_s=5) == 1
