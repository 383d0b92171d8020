"""Two real LXDs under one inventory: people on both, one of them killed and back, and no card ever with two."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from house import House, house_for, listens, until
from labkit import lab_for, lab_name

from lxgpu.lab import Lab, LabSpec, up

pytestmark = pytest.mark.lab

SECOND = "gpu2"


@dataclass(frozen=True)
class Pair:
    """Both hosts: `here` gives the commands; on the second one it is looked what is true, without lxgpu."""

    here: House
    there: House

    def of(self, name: str) -> dict[str, object]:
        """A container as `lxgpu ls` has it."""
        rows = self.here.run("ls", "-o", "json").items
        return next(row for row in rows if row["name"] == name)

    def holders(self) -> dict[str, list[str]]:
        """Who has each card of either host among their devices, by UUID."""
        found = {}
        for house in (self.here, self.there):
            attached = house.attached()
            found |= {card.uuid: attached[card.pci] for card in house.lab.gpus if card.pci in attached}
        return found

    def agreed(self) -> bool:
        """Nothing is half done, and each card is with the one that the inventory names, and with nobody else."""
        verified = self.here.run("inventory", "verify", "-o", "json")
        assert (verified.status, verified.items) == (0, []), verified.err
        records = self.here.records()
        assert not [row for row in records.operations if row.live]
        assert self.holders() == {row.slot.card: [row.instance] for row in records.assignments if row.live}
        return True

    def tick(self) -> bool:
        """One pass over both, as the daemon does it."""
        self.here.ok("daemon", "run", "--once")
        return True


@pytest.fixture(scope="module")
def second_lab() -> Iterator[Lab]:
    """A lab of two cards whose LXD is the second host."""
    yield from lab_for(LabSpec(name=lab_name("h"), gpus=2))


@pytest.fixture(scope="module")
def pair(lab: Lab, second_lab: Lab) -> Iterator[Pair]:
    """The second lab's LXD is a host of the first one's; alice lives here, bob there."""
    path = lab.paths.config
    good = path.read_text()
    probe = f"env LD_LIBRARY_PATH={second_lab.paths.nvml} {sys.executable} -m lxgpu probe"
    keys = {
        "name": SECOND,
        "socket": second_lab.socket,
        "bridge": second_lab.bridge,
        "listen": second_lab.address,
        "probe": f'"{probe}"',
    }
    entry = ", ".join(f"{key}: {value}" for key, value in keys.items())
    for house in house_for(lab):
        for there in house_for(second_lab):
            path.write_text(good.replace("network:", f"  - {{{entry}}}\nnetwork:"))
            try:
                house.ok("create", "alice")
                house.ok("create", "bob", "--host", SECOND)
                yield Pair(house, there)
            finally:
                path.write_text(good)


@pytest.fixture(autouse=True)
def _clear(pair: Pair) -> Iterator[None]:
    """After each test nobody holds or waits for anything."""
    yield
    for row in pair.here.records().reservations:
        pair.here.run("reservation", "cancel", row.id, "--yes")
    for name in ("alice", "bob"):
        pair.here.run("release", name, "--all", "--yes")
    assert until(lambda: pair.tick() and not pair.here.records().assignments, limit_s=60)
    assert pair.agreed()


@pytest.fixture
def _daemon(pair: Pair) -> Iterator[None]:
    """A daemon over both hosts, which serves the containers of both."""
    process = pair.here.start("daemon", "run")
    try:
        for name in ("alice", "bob"):
            assert until(partial(listens, pair.here.socket_of(name)), limit_s=60), name
        yield
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err


def test_a_container_is_where_it_was_asked_for(pair: Pair) -> None:
    """In that LXD and in no other; it is found by its name, opens its cards alone, and its owner logs in."""
    assert (set(pair.here.instances()), set(pair.there.instances())) == ({"alice"}, {"bob"})
    pair.here.ok("attach", "bob", "--gpus", "1")
    assert (pair.of("bob")["host"], pair.of("alice")["host"]) == (SECOND, pair.here.lab.name)
    assert pair.here.ssh("bob", "id -un").out.strip() == "bob"
    assert pair.there.card_of("bob").uuid in pair.holders()
    assert pair.here.refused(3, "reserve", "bob", "--gpus", "1", "--for", "1h", "--host", pair.here.lab.name)
    assert pair.here.refused(6, "create", "alice", "--host", SECOND)


def test_all_cards_are_in_one_list(pair: Pair) -> None:
    """Those of both hosts, each with its host."""
    rows = pair.here.ok("gpus", "-o", "json").items
    told = {row["uuid"]: row["host"] for row in rows}
    here = {card.uuid: pair.here.lab.name for card in pair.here.lab.gpus}
    assert told == here | {card.uuid: SECOND for card in pair.there.lab.gpus}


@pytest.mark.usefixtures("_daemon")
def test_bookings_on_two_hosts_at_once(pair: Pair) -> None:
    """Each gets cards of the host that it lives on, at the same time; `gpu` inside is answered on both."""
    begun = [pair.here.start("reserve", name, "--gpus", "2", "--for", "1h", "--wait") for name in ("alice", "bob")]
    for process in begun:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    held = {name: house.cards_of(name) for name, house in (("alice", pair.here), ("bob", pair.there))}
    assert {name: len(cards) for name, cards in held.items()} == {"alice": 2, "bob": 2}
    assert "2 GPUs" in pair.there.sh("bob", "gpu") or "GPU-" in pair.there.sh("bob", "gpu")


@pytest.mark.usefixtures("_daemon")
def test_a_host_whose_lxd_is_killed(pair: Pair) -> None:
    """Its container is unreachable and its cards stay his; the other host goes on; back again, nothing is double."""
    pair.here.ok("attach", "bob", "--gpus", "1")
    mine = pair.there.card_of("bob").uuid
    process = pair.here.start("attach", "bob", "--gpus", "2")
    os.kill(pair.there.daemon(), signal.SIGKILL)
    process.communicate(timeout=100)
    assert pair.of("bob")["state"] == "unreachable"
    slots = pair.here.run("gpus", "-o", "json").items
    states = {row["uuid"]: [(slot["holder"], slot["state"]) for slot in row["slots"]] for row in slots}
    assert states[mine][0][0] == "bob"
    assert not [state for card in pair.there.lab.gpus for _, state in states[card.uuid] if state == "free"]
    assert pair.here.refused(8, "release", "bob", "--all", "--yes")
    shown = pair.here.ok("host", "ls", "-o", "json").items
    assert {row["name"]: row["state"] for row in shown} == {pair.here.lab.name: "up", SECOND: "unreachable"}
    pair.here.ok("attach", "alice", "--gpus", "2")
    assert len(pair.here.cards_of("alice")) == 2
    assert pair.here.records().held_by("bob"), "what he has is not forgotten while his host is away"

    up(LabSpec(name=pair.there.lab.name))
    settled = partial(_settled, pair)
    assert until(settled, limit_s=60)
    assert mine in {card.uuid for card in pair.there.cards_of("bob")}
    assert pair.of("bob")["state"] == "running"
    assert pair.agreed()


def _settled(pair: Pair) -> bool:
    records = pair.here.records()
    live = {row.slot.card: [row.instance] for row in records.assignments if row.live}
    return not any(row.live for row in records.operations) and pair.holders() == live


def test_a_host_that_hangs(pair: Pair) -> None:
    """LXD there answers nobody: what it has is unknown, and on the other host everything goes on."""
    pair.here.ok("attach", "bob", "--gpus", "1")
    os.kill(pair.there.daemon(), signal.SIGSTOP)
    try:
        pair.here.ok("attach", "alice", "--gpus", "1")
        assert (pair.of("alice")["state"], pair.of("bob")["state"]) == ("running", "unreachable")
        pair.here.ok("create", "carol", "--host", "any", "--gpus", "1")
        assert pair.of("carol")["host"] == pair.here.lab.name, "a host that does not answer is not chosen"
    finally:
        os.kill(pair.there.daemon(), signal.SIGCONT)
    pair.here.ok("delete", "carol", "--purge", "--yes")
    assert pair.of("bob")["state"] == "running"
    assert len(pair.there.cards_of("bob")) == 1


def test_a_host_is_drained(pair: Pair) -> None:
    """Nobody is given its cards, who has one keeps it, and the other host lends as before; opened, it lends again."""
    pair.here.ok("attach", "bob", "--gpus", "1")
    steps = pair.here.ok("host", "drain", SECOND, "--note", "new fans", "--dry-run", "-o", "json").items
    assert sorted(step["instance"] for step in steps[0]["steps"]) == ["", "bob"]
    pair.here.ok("host", "drain", SECOND, "--note", "new fans")
    assert pair.here.refused(7, "attach", "bob", "--gpus", "2")
    pair.here.ok("attach", "alice", "--gpus", "1")
    assert pair.tick()
    assert len(pair.there.cards_of("bob")) == 1
    pair.here.ok("host", "open", SECOND)
    pair.here.ok("attach", "bob", "--gpus", "2")
    assert len(pair.there.cards_of("bob")) == 2


def test_lost_and_made_again_of_both(pair: Pair) -> None:
    """The inventory is gone: each LXD gives back what it carries, and everybody has what they had."""
    for name in ("alice", "bob"):
        pair.here.ok("attach", name, "--gpus", "1")
    before = pair.holders()
    for path in pair.here.lab.paths.state.glob("inventory.db*"):
        path.unlink()
    pair.here.ok("inventory", "rebuild", "--yes")
    assert pair.holders() == before
    assert pair.of("bob")["host"] == SECOND
    assert pair.agreed()
