"""A lost inventory: told rightly, made again from LXD alone, and nothing is destroyed by that."""

from __future__ import annotations

import errno
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House, house_for

from lxgpu.lab import Lab
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Four people in four states: one with two cards, one stopped with one, one suspended, one in the trash."""
    for house in house_for(lab):
        house.ok("create", "ann", "--gpus", "2", "--cpu", "1", "--memory", "700MiB", "--for", "2d")
        house.ok("create", "ben", "--gpus", "1")
        house.ok("stop", "ben", "--yes")
        house.ok("create", "cat", "--expires", "30d")
        house.ok("suspend", "cat", "--reason", "thesis handed in", "--yes")
        house.ok("create", "dan")
        house.ok("delete", "dan", "--yes")
        free = next(uuid for uuid, (_, state) in house.slots().items() if state == "free")
        house.ok("gpu", "close", free, "--reason", "the fan is loud")
        yield house


def lose(house: House) -> None:
    """The database goes, as by `rm`."""
    for path in house.lab.paths.state.glob("inventory.db*"):
        path.unlink()


def told(house: House, *words: str) -> Any:
    """What a command says, as JSON, times of observation left out."""
    rows = json.loads(house.ok(*words, "-o", "json").out)
    for row in rows["items"]:
        row.pop("sampled_at", None)
    return rows


def everything(house: House) -> list[Any]:
    """All that people see of containers, cards and keys."""
    return [
        told(house, "ls", "--all"),
        told(house, "gpus"),
        *(told(house, "keys", "ls", name) for name in ("ann", "ben", "cat")),
    ]


def in_lxd(house: House) -> dict[str, Any]:
    """Instances with their devices and power, and the volumes."""
    rows = {name: (row["devices"], row["status"]) for name, row in house.instances().items()}
    return {"instances": rows, "volumes": house.volumes()}


def test_lost_and_made_again(house: House) -> None:
    """`rm` of the database: changes are refused and say what to do; after `inventory rebuild` all is as it was."""
    before, there = everything(house), in_lxd(house)
    lose(house)
    for words in (("create", "eve"), ("attach", "ann", "--gpus", "3"), ("release", "ann", "--all"), ("start", "ben")):
        ran = house.run(*words)
        assert ran.status in {3, 6}, ran.err
        assert "inventory rebuild" in ran.err
    assert in_lxd(house) == there
    lose(house)
    house.ok("inventory", "rebuild")
    assert everything(house) == before
    assert in_lxd(house) == there
    house.settled(kept=["dan"])
    house.ok("start", "ben")
    house.ok("resume", "cat")
    assert house.ssh("ann", "id -un").out.strip() == "ann"
    assert house.ssh("cat", "id -un").out.strip() == "cat"
    house.ok("suspend", "cat", "--reason", "thesis handed in", "--yes")
    house.ok("stop", "ben", "--yes")


@pytest.mark.parametrize("command", ["create eve", "attach ann --gpus 2", "release ann --gpus 1"])
def test_lost_under_a_running_command(house: House, command: str) -> None:
    """`rm` while a command is at work: it ends with status 6 and says so; a rebuild loses nothing that was there."""
    words = command.split()
    if words[0] == "attach":
        house.ok("release", "ann", "--gpus", "1")
    process = house.start(*words)
    assert process.stderr is not None
    step = {"create": "limits, network", "attach": "attaching", "release": "nothing new can open"}[words[0]]
    assert any(step in line for line in process.stderr)
    lose(house)
    _, err = process.communicate(timeout=100)
    assert process.returncode in {0, 6}, err
    assert process.returncode == 0 or "error[inventory_lost]" in err
    names = set(house.instances())
    house.ok("inventory", "rebuild", "--yes")
    assert names <= set(house.instances()), "a rebuild destroys nothing"
    found = house.run("inventory", "verify", "-o", "json")
    assert {one["subject"] for one in found.items} <= {"eve"}, found.out
    shown = {row["name"]: row["state"] for row in told(house, "ls", "--all")["items"]}
    assert {"ann": "running", "ben": "stopped", "cat": "suspended"}.items() <= shown.items()
    _sweep(house, "eve")
    house.ok("attach", "ann", "--gpus", "2")
    house.settled(kept=["dan"])


@pytest.mark.parametrize(("kind", "after_s"), [("create", 1.2), ("delete", 0.5), ("delete", 1.2), ("release", 0.7)])
def test_half_done_and_lost(house: House, kind: str, after_s: float) -> None:
    """Killed in the middle, and the database gone too: the rebuild keeps what there is, and no card is lent twice."""
    if kind != "create":
        house.ok("create", "fay", "--gpus", "0", "--if-not-exists")
    words = {
        "create": ("create", "fay", "--gpus", "0"),
        "delete": ("delete", "fay", "--yes"),
        "release": ("release", "ann", "--all"),
    }[kind]
    process = house.start(*words)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = set(house.instances()), house.volumes()
    lose(house)
    house.ok("inventory", "rebuild", "--yes")
    assert (set(house.instances()), house.volumes()) == there, "a rebuild destroys nothing"
    found = house.run("inventory", "verify", "-o", "json")
    assert {one["subject"] for one in found.items} <= {"fay"}, found.out
    attached = house.attached()
    assert all(len(names) == 1 for names in attached.values())
    assert {uuid: holder for uuid, (holder, _) in house.slots().items()} == {
        card.uuid: attached.get(card.pci, [None])[0] for card in house.lab.gpus
    }
    _sweep(house, "fay")
    house.ok("attach", "ann", "--gpus", "2")
    house.settled(kept=["dan"])


def test_an_older_backup(house: House, tmp_path: Path) -> None:
    """A backup from before a card was lent: nobody gets the card before it is taken from who has it, and proven."""
    house.ok("release", "ann", "--gpus", "1")
    house.ok("inventory", "backup", str(tmp_path / "copy"))
    before = house.cards_of("ann")
    house.ok("attach", "ann", "--gpus", "2")
    (card,) = (card for card in house.cards_of("ann") if card not in before)
    job = start_job(house.lab, JobSpec(instance="ann", gpu=card.uuid, ignore_term=True))
    house.ok("inventory", "restore", str(tmp_path / "copy"), "--yes")
    assert house.records().held_by("ann")[0].slot.gpu == before[0].uuid
    house.ok("attach", "ben", "--gpu", card.uuid)
    assert not Path(f"/proc/{job.pid}/fd/0").exists(), "two have the card"
    assert house.opens("ann", *(node.path for node in card.nodes)) == [errno.ENOENT] * 3
    house.settled(kept=["dan"])
    house.ok("release", "ben", "--gpu", card.uuid)
    house.ok("attach", "ann", "--gpus", "2")


def _sweep(house: House, person: str) -> None:
    """Take away what a rebuild kept of somebody: with lxgpu where it knows it, else as it advises."""
    for name in [name for name in house.instances() if name in {person, f"trash-{person}"}]:
        if house.run("delete", name, "--purge", "--yes").status:
            house.lxc("delete", "--force", name)
    house.lxc("storage", "volume", "delete", "default", f"home-{person}", check=False)


def test_two_who_say_they_hold_it(house: House) -> None:
    """A snapshot restored before the loss lets two containers claim one card: it goes to neither, and both are told."""
    cards = house.cards_of("ann")
    house.lxc("snapshot", "ann", "old")
    house.ok("release", "ann", "--all")
    house.ok("attach", "ben", "--gpu", cards[0].uuid)
    house.lxc("restore", "ann", "old")
    house.lxc("delete", "ann/old")
    lose(house)
    ran = house.ok("inventory", "rebuild")
    assert "ann" in ran.err
    assert "ben" in ran.err
    assert house.slots()[cards[0].uuid][1] == "quarantined"
    house.refused(7, "create", "eve", "--gpu", cards[0].uuid)
