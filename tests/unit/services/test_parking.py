"""Parking keeps a program alive where the policy wants it and everything fits; every refusal falls through to TERM."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Operation
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import PreemptionRules, Rules, TakeBy
from lxgpu.ports import Process
from lxgpu.services import lending
from lxgpu.services.lending import RELEASE
from lxgpu.services.operations import finish
from lxgpu.services.parking import PARK_S
from lxgpu.services.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A lab that parks; alice has a card."""
    rules = Rules(preemption=PreemptionRules(on_preempt=(TakeBy.PARK, TakeBy.TERM), fence_timeout_s=5))
    site = make_site(tmp_path, policy=replace(lab_policy(), rules=rules))
    newcomer(site, "alice", gpus=1)
    return site


def work(site: Site) -> Process:
    """Alice's program on her card."""
    (row,) = site.inventory.read().held_by("alice")
    card = next(card for card in site.engine.cards if card.uuid == row.slot.gpu)
    return site.probe.run(site.engine.init("alice"), card.nodes, memory_bytes=2**30)


def take(site: Site, *, rule: str = "priority") -> None:
    """Bob needs the card."""
    (row,) = site.inventory.read().held_by("alice")
    args = {"slots": [str(row.slot)], "rule": rule, "term_wait_s": 1, "fence_timeout_s": 5}
    operation = Operation("op1", "release", "alice", site.clock.now(), "root", args=args)
    with site.write() as tx:
        tx.put(replace(row, state=AssignmentState.RELEASING), operation)
    finish(site, RELEASE, "op1")
    assert not site.inventory.read().held_by("alice")


def give(site: Site) -> None:
    """The card is back."""
    request = GpuRequest(instance="alice", owner="", more=0)
    lending.attach(site, "alice", number=1, more=False, request=request, lease_s=None)


def whys(site: Site) -> list[tuple[str, object]]:
    """What the history says of parking, oldest first."""
    events = reversed(site.inventory.events(subject="alice", limit=100))
    return [(event.kind, event.detail["why"]) for event in events if event.rule == "park"]


def test_a_parked_program_lives_on_and_goes_on_with_its_card(site):
    """No signal meets it; when the card is back it is resumed, and only once."""
    process = work(site)
    take(site)
    assert site.probe.alive(process)
    assert site.probe.signals == []
    give(site)
    take_by_hand(site)
    give(site)
    assert [one.pid for one in site.parker.back] == [process.pid]
    assert whys(site) == [("parked", ""), ("unparked", "")]


def take_by_hand(site: Site) -> None:
    """Alice gives it back herself."""
    lending.release(site, "alice", count=None, busy=True)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("refuses", "it uses NCCL"),
        ("old driver", "the driver is 535.1; 550 can do it"),
        ("two", "2 processes hold the cards; one can be parked"),
        ("unlisted", "how much it has on the cards is not known"),
    ],
)
def test_every_refusal_falls_through_to_term(site, trouble, why):
    """It is asked to end like any other, at once, and the history says why."""
    processes = [work(site)]
    match trouble:
        case "refuses":
            site.parker.refuses = why
        case "old driver":
            readings = site.probe.readings
            site.probe.readings = lambda: replace(readings(), driver="535.1")
        case "two":
            processes.append(work(site))
        case "unlisted":
            (one,) = site.probe.processes
            one.kind = None
    begun = site.clock.now()
    take(site)
    assert sorted((one.pid, number) for one, number in site.probe.signals) == [
        (one.pid, signal.SIGTERM) for one in processes
    ]
    assert (site.clock.now() - begun).total_seconds() < PARK_S
    assert whys(site) == [("not_parked", why)]


def test_one_that_does_not_let_go_is_asked_to_end(site):
    """The tool hangs: after its time TERM comes."""
    site.parker.stuck = True
    process = work(site)
    begun = site.clock.now()
    take(site)
    assert not site.probe.alive(process)
    assert (site.clock.now() - begun).total_seconds() >= PARK_S


@pytest.mark.parametrize("how", ["by default", "by hand"])
def test_it_is_off_unless_it_is_wanted(site, how):
    """The policy's default is TERM alone; what the owner gives back is not parked either."""
    process = work(site)
    if how == "by default":
        take(replace(site, policy=lab_policy))
    else:
        take(site, rule="")
    assert not site.probe.alive(process)
    assert site.parker.parked == []
