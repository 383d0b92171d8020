"""What others do between a look and a write, and what a container's owner puts in the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.site import make_site, newcomer, request_for

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState, Limits
from lxgpu.model.names import LONGEST_NAME, name_fault
from lxgpu.model.request import GpuRequest
from lxgpu.services import ending, leaving, lending, observe, power, renewal, reshape, untrash
from lxgpu.services.provision import create
from lxgpu.services.recover import recover
from lxgpu.services.site import Site


class Interrupted:
    """The locks, with something that happens just before the first is taken."""

    def __init__(self, site: Site, act: Callable[[], object]) -> None:
        self._locks, self._act, self._done = site.locks, act, False

    def hold(self, name: str, *, wait_s: float, once: bool = False) -> object:
        """Act once, then hold the lock as ever."""
        if not self._done:
            self._done = True
            self._act()
        return self._locks.hold(name, wait_s=wait_s, once=once)


ACTS: dict[str, Callable[[Site], object]] = {
    "attach": lambda site: lending.attach(
        site, "alice", number=1, more=True, request=GpuRequest(instance="alice", owner="", more=0), lease_s=None
    ),
    "start": lambda site: power.start(site, "alice"),
    "rebuild": lambda site: renewal.rebuild(site, "alice", image=""),
    "resize": lambda site: reshape.resize(site, "alice", Limits(cpu=1)),
    "suspend": lambda site: ending.suspend(site, "alice", reason="again"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_what_was_suspended_meanwhile_stays_suspended(tmp_path: Path, act: Callable[[Site], object]) -> None:
    """A command that found the container in use is refused when it is so no more by the time of its write."""
    site = make_site(tmp_path, gpus=2)
    newcomer(site, "alice")
    late = replace(site, locks=Interrupted(site, lambda: ending.suspend(site, "alice", reason="holidays")))
    with pytest.raises(LxgpuError) as caught:
        act(late)
    row = site.inventory.read().instance("alice")
    assert caught.value.code == "not_ready"
    assert (row.state, row.reason, site.inventory.read().held_by("alice")) == (InstanceState.SUSPENDED, "holidays", ())


def test_what_lies_in_the_trash_is_not_suspended(tmp_path: Path) -> None:
    """Suspending a deleted container is refused, and it stays where it is."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    ending.delete(site, "alice", purge=False)
    with pytest.raises(LxgpuError) as caught:
        ending.suspend(site, "trash-alice", reason="holidays")
    assert caught.value.code == "not_ready"
    assert site.inventory.read().instance("trash-alice").state is InstanceState.TRASHED


def test_a_name_taken_meanwhile_leaves_nothing_of_a_create(tmp_path: Path) -> None:
    """Somebody launches a container of the name between the decision and the step: theirs stays, ours is undone."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "bob")
    late = replace(site, locks=Interrupted(site, lambda: site.engine.add_stranger("alice", devices={}, running=True)))
    with pytest.raises(LxgpuError) as caught:
        create(late, request_for(site, "alice", gpus=1))
    recover(site)
    records = site.inventory.read()
    assert caught.value.code == "exists"
    assert (records.instance("alice"), records.operations) == (None, ())
    assert not any(row.live for row in records.assignments)
    assert site.engine.instance("alice").power.value == "running"


@pytest.mark.parametrize("length", [57, 58, 60, LONGEST_NAME])
def test_the_longest_names_can_be_deleted_and_brought_back(tmp_path: Path, length: int) -> None:
    """What does not fit behind `trash-` is cut, twice without meeting, and the old name comes back whole."""
    site = make_site(tmp_path)
    name = "a" * 54 + "-b" + "c" * (length - 56)
    for _ in range(2):
        newcomer(site, name, owner="alice")
        ending.delete(site, name, purge=False)
    trashed = sorted(row.name for row in site.inventory.read().instances)
    assert len(set(trashed)) == 2
    assert all(len(one) <= LONGEST_NAME and not name_fault(one.removeprefix(leaving.TRASH)) for one in trashed)
    assert untrash.untrash(site, trashed[0]) == name


def test_a_dev_that_nobody_can_look_into_keeps_no_card(tmp_path: Path) -> None:
    """Its root may fill /dev or put a file system of their own there; the rule holds and the card comes back."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "alice", gpus=1)
    site.probe.walled.add(site.engine.init("alice"))
    lending.release(site, "alice", count=None)
    assert site.inventory.read().held_by("alice") == ()
    assert site.probe.openable(site.engine.init("alice"), site.engine.cards[0].nodes) == frozenset()
    assert observe.look(site).sighting("alice").power.value == "running"
