"""The hosts as they are shown: asked side by side, and what is not known is not made up."""

from __future__ import annotations

import threading

import pytest
from fakes.probe import FakeProbe
from fakes.system import FakeClock
from probe_worlds import CARD, OTHER

from lxgpu.drivers.remote import unreachable
from lxgpu.services.hostviews import Neighbour, look_at_all

SOON_S = 1.0


@pytest.fixture
def probe():
    """A host with two cards."""
    return FakeProbe(FakeClock(), lambda: (CARD, OTHER), lambda _init: None)


def at(name, probe):
    """A host that answers."""
    return Neighbour(name, "here", lambda: probe)


def away():
    """A host that cannot be reached."""
    raise unreachable("gpu2", "no route to host", fix="mend the switch")


def test_a_host_that_answers_is_up(probe):
    """With its cards; one that NVML cannot read counts as faulty."""
    probe.faults[OTHER.uuid] = "lost"
    (view,) = look_at_all([at("gpu1", probe)], within_s=30)
    assert (view.state, view.gpus, view.faulty, view.driver, view.error) == ("up", 2, 1, "550.54.15", None)
    assert [(card.uuid, card.fault) for card in view.cards] == [(CARD.uuid, None), (OTHER.uuid, "lost")]


def test_a_host_that_is_away_hides_no_other(probe):
    """It is unreachable, with the cause; what it has is not known."""
    hosts = [Neighbour("gpu2", "ssh gpu2", away), at("gpu1", probe)]
    far, near = look_at_all(hosts, within_s=30)
    assert (far.name, far.state, far.error, far.fix) == ("gpu2", "unreachable", "no route to host", "mend the switch")
    assert (far.gpus, far.faulty, far.cards) == (None, None, None)
    assert near.state == "up"


def test_a_host_that_hangs_is_not_waited_for(probe):
    """All are told in time, and this one is unreachable."""
    go = threading.Event()

    def hangs():
        go.wait(30)
        return probe

    hung, fine = look_at_all([Neighbour("gpu2", "ssh gpu2", hangs), at("gpu1", probe)], within_s=SOON_S)
    go.set()
    assert (hung.state, hung.error) == ("unreachable", "it did not answer within 1 s")
    assert fine.state == "up"


def test_a_host_without_nvml_is_up_and_its_cards_are_not_known(probe):
    """Not known is not none."""
    probe.error = "NVML cannot be used"
    (view,) = look_at_all([at("gpu1", probe)], within_s=30)
    assert (view.state, view.gpus, view.cards, view.error) == ("up", None, None, "NVML cannot be used")
