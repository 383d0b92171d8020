"""What each rule does in small stories whose answers follow from its source."""

from __future__ import annotations

import pytest

from lxgpu.simulate import rules
from lxgpu.simulate.engine import play
from lxgpu.simulate.jobs import Job, Lab, Workload


def _played(name, jobs, servers=1, gpus=8, policy=None):
    floor, rule = rules.make(name)(Workload("w", tuple(jobs)), Lab(servers, gpus), policy)
    play(floor, rule)
    return floor


def _job(gpus, submit_s, duration_s, group="g", **more):
    more.setdefault("checkpoint_s", 0)
    more.setdefault("restart_s", 0)
    return Job(f"{group}{submit_s}", group, gpus, submit_s, duration_s, group=group, **more)


OVERTAKING = [_job(6, 0, 100), _job(4, 1, 10), _job(2, 2, 50), _job(4, 3, 5), _job(1, 4, 1)]


@pytest.mark.parametrize(
    ("name", "starts"),
    [("fifo", [0, 100, 100, 110, 110]), ("sjf", [0, 100, 105, 100, 4]), ("fifo-skip", [0, 100, 2, 100, 52])],
)
def test_who_does_not_fit_is_waited_for_or_overtaken(name, starts):
    """Who does not fit is waited for or overtaken."""
    assert _played(name, OVERTAKING).first_start == starts


@pytest.mark.parametrize("name", ["fifo", "sjf", "fifo-skip", "static"])
def test_who_could_never_fit_holds_up_nobody(name):
    """Who could never fit holds up nobody."""
    assert _played(name, [_job(9, 0, 1), _job(8, 1, 10), _job(1, 2, 5)]).first_start == [None, 1, 11]


def test_in_a_divided_lab_a_group_waits_for_its_own_servers():
    """In a divided lab a group waits for its own servers."""
    jobs = [_job(2, 0, 100, "a"), _job(2, 1, 300, "b"), _job(2, 2, 50, "b"), _job(1, 3, 50, "a"), _job(1, 3, 5, "a")]
    assert _played("static", jobs, servers=2, gpus=2).first_start == [0, 1, 301, 100, 100]
