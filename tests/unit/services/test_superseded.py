"""An old writer that wakes after a take-over changes nothing in LXD, whatever moment it slept at."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest
from lxgpu.services import inservice
from lxgpu.services.identity import KEY_PROMISES
from lxgpu.services.lending import attach, release
from lxgpu.services.rebuild import rebuild
from lxgpu.services.tick import tick


@pytest.fixture
def old(tmp_path):
    """The inventory that made everything: alice holds a card of two, bob none."""
    site = make_site(tmp_path / "old", gpus=2)
    newcomer(site, "alice", gpus=1)
    newcomer(site, "bob")
    return site


@pytest.fixture
def new(tmp_path, old):
    """Another inventory on the same LXD, empty until it takes over."""
    return make_site(tmp_path / "new", engine=old.engine, clock=old.clock)


def world(site):
    """All that LXD has of instances and of promises."""
    machines = {key: (found.config, found.devices) for key, found in site.engine.machines.items()}
    return deepcopy((machines, dict(site.engine.server().promises)))


def take(site):
    """Alice's card goes back."""
    release(site, "alice", count=None)


def give(site):
    """Bob gets one."""
    attach(site, "bob", number=1, more=True, request=GpuRequest("bob", "bob", more=1), lease_s=None)


def shut(site):
    """A card is taken out of service, which LXD's promises tell."""
    inservice.close(site, site.engine.cards[1].uuid, reason="loud")


@pytest.mark.parametrize("act", [tick, take, give, shut], ids=["tick", "release", "attach", "close"])
def test_asleep_between_two_commands(old, new, act):
    """The first thing it learns is that it is not its turn any more."""
    rebuild(new)
    before = world(new)
    writes = old.engine.writes
    with pytest.raises(LxgpuError) as caught:
        act(old)
    assert (caught.value.code, int(caught.value.status)) == ("superseded", 6)
    assert (world(new), old.engine.writes) == (before, writes)


class Sleeper:
    """An LXD whose client falls asleep right before its n-th write; `meanwhile` happens until it wakes."""

    WRITES = frozenset({"create", "delete", "put_promises", "rename", "start", "stop", "update"})

    def __init__(self, engine, nth, meanwhile):
        self._engine, self._left, self._meanwhile = engine, nth, meanwhile

    def __getattr__(self, name):
        found = getattr(self._engine, name)
        if name not in self.WRITES:
            return found

        def write(*args, **kwargs):
            self._left -= 1
            if self._left == 0:
                self._meanwhile()
            return found(*args, **kwargs)

        return write


@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("act", [take, give, shut], ids=["release", "attach", "close"])
def test_asleep_before_any_write_of_a_change(old, new, act, nth):
    """Stopped right before its n-th write: that write is refused, and so is every one after it."""
    seen, code = [], ""

    def take_over():
        rebuild(new)
        seen.append(world(new))

    try:
        act(replace(old, engine=Sleeper(old.engine, nth, take_over)))
    except LxgpuError as error:
        code = error.code
    if seen:
        assert (code, world(new)) == ("superseded", seen[0])
    else:
        assert code == "", "it had fewer writes than that, and ended well"
        assert nth > 1, "nothing was written at all"


def test_two_that_write_promises_at_once_leave_those_of_both(old):
    """A command that was overtaken writes what is true now, not what was when it began."""
    first, second = (gpu.uuid for gpu in old.engine.cards)
    sleepy = replace(old, engine=Sleeper(old.engine, 1, lambda: inservice.close(old, first, reason="loud")))
    inservice.close(sleepy, second, reason="hot")
    promised = json.loads(old.engine.server().promises[KEY_PROMISES])
    assert set(promised["closed"]) == {first, second}
