"""One look at the host for all who ask: how often there is one, and that nobody is told what is over by then."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from dealings import give, go_on, policy
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.inventory.store import open_inventory
from lxgpu.services.guest import Guests
from lxgpu.services.guestworld import FRESH_S, SILENT_S, Looks
from lxgpu.services.tick import tick

ASKERS = 8


@pytest.fixture
def site(tmp_path):
    """Two cards, of which alice holds one; the inventory is a file, as the daemon's."""
    with open_inventory(tmp_path / "inventory.db") as store:
        site = make_site(tmp_path, gpus=2, policy=policy(), inventory=store, actor="daemon")
        newcomer(site, "alice")
        newcomer(site, "bob")
        give(site, "alice", 1)
        yield site


@pytest.fixture
def guests(site):
    """What the sockets have."""
    return Guests(lambda: site, lambda: None)


class Held:
    """LXD, held up before it tells its cards: `came` says that somebody asks, `go` lets it answer."""

    def __init__(self, site):
        self.came, self.go = threading.Event(), threading.Event()
        self._gpus = site.engine.gpus
        site.engine.gpus = self

    def __call__(self):
        """The cards, in the end."""
        self.came.set()
        assert self.go.wait(30)
        return self._gpus()


def test_of_many_who_ask_at_once_one_has_lxd_asked(site, guests):
    """Cards and instances once, and everybody gets the answer."""
    lxd, before = Held(site), site.engine.requests
    with ThreadPoolExecutor(ASKERS) as pool:
        asked = [pool.submit(guests.status, name) for name in ("alice", "bob") * (ASKERS // 2)]
        assert lxd.came.wait(30)
        lxd.go.set()
        told = [one.result(30) for one in asked]
    assert [one.free for one in told] == [1] * ASKERS
    assert site.engine.requests == before + 2


def test_what_the_daemons_turn_saw_is_seen_by_all(site, guests):
    """After a turn LXD is asked for nobody, until that look is old."""
    tick(site)
    before = site.engine.requests
    assert [guests.status(name).free for name in ("alice", "bob", "alice")] == [1, 1, 1]
    assert site.engine.requests == before
    site.clock.sleep(FRESH_S + 1)
    guests.status("alice")
    assert site.engine.requests == before + 2


def test_whoever_wrote_sees_it_at_once(guests):
    """Each own change stands in the very next answer."""
    guests.status("bob")
    (row,) = guests.reserve("bob", gpus=1, seconds=3600, at="+4h", model="*").reservations
    assert [one.id for one in guests.status("bob").reservations] == [row.id]
    guests.cancel("bob", row.id)
    assert guests.status("bob").reservations == ()
    guests.keep("alice", seconds=3600, reason="loading")
    assert len(guests.status("alice").keeps) == 1
    guests.release("alice", gpus=None, busy=True)
    assert [gpu.state for gpu in guests.status("alice").gpus] == ["releasing"]


def test_a_card_that_was_given_back_is_free_at_once(site, guests):
    """What LXD showed while it was held does not count any more, though no time has passed since."""
    assert guests.status("alice").free == 1
    guests.release("alice", gpus=None, busy=True)
    before = site.clock.monotonic()
    go_on(site, 8)
    assert site.clock.monotonic() - before < FRESH_S
    assert (guests.status("alice").free, guests.status("bob").free) == (2, 2)


def test_what_another_process_wrote_is_seen_at_once(site, guests, tmp_path):
    """The inventory's version has moved, whoever moved it."""
    told = guests.status("alice")
    with open_inventory(tmp_path / "inventory.db") as other, other.write(actor="root", now=site.clock.now()) as tx:
        (row,) = tx.records.held_by("alice")
        tx.put(replace(row, until=None))
    assert told.gpus[0].until is not None
    assert guests.status("alice").gpus[0].until is None


def test_a_look_that_began_before_a_change_is_not_told_after_it(site, guests):
    """Alice gives her card back while bob's question waits for LXD; hers has a look of its own."""
    lxd = Held(site)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(guests.status, "bob")
        assert lxd.came.wait(30)
        with site.write() as tx:
            (row,) = tx.records.held_by("alice")
            tx.drop(row)
        late = pool.submit(guests.status, "alice")
        lxd.go.set()
        assert (early.result(30).at, late.result(30).gpus) == (site.clock.now(), ())


def test_who_asks_does_not_wait_for_an_lxd_that_hangs(site):
    """The inventory is told without it; once it has answered, its answer is there."""
    looks, lxd = Looks(wait_s=0.05), Held(site)
    found = looks.now(site)
    assert (found.seen, len(found.records.held_by("alice"))) == (None, 1)
    lxd.go.set()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_until_seen, looks, site).result(30)


def _until_seen(looks, site):
    until = time.monotonic() + 30
    while looks.now(site).seen is None:
        if time.monotonic() > until:
            return False
    return True


def test_an_lxd_that_is_down_is_asked_again_soon(site, guests):
    """Not for every question, and sooner than one that answers."""
    lists, asked = site.engine.gpus, []

    def down():
        asked.append(1)
        raise LxgpuError("unavailable", "LXD does not answer")

    site.engine.gpus = down
    assert [guests.status(name).free for name in ("alice", "bob")] == [None, None]
    assert asked == [1]
    site.engine.gpus = lists
    site.clock.sleep(SILENT_S + 0.1)
    assert guests.status("alice").free == 1


def test_threads_ask_and_change_while_the_daemon_is_at_its_turns(site, guests):
    """Nobody is told of a fault, and what was booked and given up again is gone."""
    ended = threading.Event()

    def turns():
        while not ended.is_set():
            tick(site)

    def ask(name):
        for hours in range(1, 5):
            (row,) = guests.reserve(name, gpus=1, seconds=600, at=f"+{hours}h", model="*").reservations
            assert row.id in {one.id for one in guests.status(name).reservations}
            assert guests.why(name).lines
            guests.cancel(name, row.id)
            assert row.id not in {one.id for one in guests.status(name).reservations}

    with ThreadPoolExecutor(5) as pool:
        daemon = pool.submit(turns)
        asked = [pool.submit(ask, name) for name in ("alice", "bob")]
        looked = [pool.submit(lambda: [guests.status("alice").total for _ in range(40)]) for _ in range(2)]
        try:
            assert [one.result(50) for one in asked] == [None, None]
            assert [one.result(50) for one in looked] == [[2] * 40] * 2
        finally:
            ended.set()
        assert daemon.result(50) is None
