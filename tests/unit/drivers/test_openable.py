"""Trials by a child that waits: it is used again, replaced when it has gone, and never keeps anybody waiting."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from leftovers import trials_left
from plain_instance import PlainInstance, wait_for

from lxgpu.drivers import openable as module
from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.device_rule import set_rule
from lxgpu.drivers.openable import Trials
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

ABSENT = DeviceNode("nvidia7", 195, 7)


@pytest.fixture
def trials() -> Iterator[Trials]:
    """A maker of trials."""
    made = Trials()
    yield made
    made.close()


def waiting(trials: Trials) -> int:
    """The child's pid."""
    assert trials._child is not None  # noqa: SLF001 - what is tested is whether it is the same one
    return trials._child.pid  # noqa: SLF001 - as above


def test_one_child_makes_all_trials(
    trials: Trials, inside: PlainInstance, cgroups: Cgroups, card: DeviceNode, other: DeviceNode
) -> None:
    """It says what is true at each time, and has itself not moved into the container."""
    assert trials.openable(cgroups, inside.init, [card, other]) == {card, other}
    child = waiting(trials)
    set_rule(cgroups, inside.init, denied=[card], allowed=[other])
    assert trials.openable(cgroups, inside.init, [card, other]) == {other}
    assert waiting(trials) == child
    assert cgroups.part(child) is None
    assert wait_for(lambda: cgroups.members(inside.init) == {inside.init})


def test_a_child_that_has_gone_is_replaced(
    trials: Trials, inside: PlainInstance, cgroups: Cgroups, card: DeviceNode
) -> None:
    """Whoever ends it does not end the next trial."""
    trials.openable(cgroups, inside.init, [card])
    gone = waiting(trials)
    os.kill(gone, signal.SIGKILL)
    assert trials.openable(cgroups, inside.init, [card]) == {card}
    assert waiting(trials) != gone


def test_a_frozen_container_gives_no_answer_and_leaves_nobody_behind(
    trials: Trials,
    inside: PlainInstance,
    cgroups: Cgroups,
    card: DeviceNode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its user may freeze it at will: the trial ends by its deadline, and the next one works."""
    monkeypatch.setattr(module, "_CHILD_S", 0.3)
    set_rule(cgroups, inside.init, denied=[ABSENT], allowed=[card], mode="bpf")
    freeze = inside.place("unified") / "cgroup.freeze"
    freeze.write_text("1")
    with pytest.raises(LxgpuError, match="did not end within"):
        trials.openable(cgroups, inside.init, [card])
    freeze.write_text("0")
    assert wait_for(lambda: cgroups.members(inside.init) == {inside.init})
    assert trials.openable(cgroups, inside.init, [card]) == {card}
    assert not trials_left(os.getpid())


def test_a_cgroup_that_takes_nobody_is_told(
    trials: Trials, inside: PlainInstance, cgroups: Cgroups, card: DeviceNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is an error with its reason, never "nothing opens"; and the child lives on."""
    monkeypatch.setattr(module, "_process_lists", lambda *_: [Path("/dev/full")])
    with pytest.raises(LxgpuError, match="gave no answer") as caught:
        trials.openable(cgroups, inside.init, [card])
    assert "No space left" in " ".join(caught.value.why)
    monkeypatch.undo()
    assert trials.openable(cgroups, inside.init, [card]) == {card}


def test_it_ends_with_its_parent(inside: PlainInstance, cgroups: Cgroups, card: DeviceNode) -> None:
    """Closing lets it go."""
    trials = Trials()
    trials.openable(cgroups, inside.init, [card])
    child = waiting(trials)
    trials.close()
    assert not Path("/proc", str(child)).exists()
