"""A divided card on a real LXD: four share it, each part is lent, taken, proven and given back by itself."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House, house_for, numbers_of, until

from lxgpu.lab import Lab
from lxgpu.lab.jobs import Job, JobSpec, start_job
from lxgpu.lab.spec import Card
from lxgpu.model.gpu import Slot

pytestmark = pytest.mark.lab

FOUR = ("alice", "bob", "carol", "dave")
SHARED = "/mnt/shared"


@pytest.fixture(scope="module")
def house(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The policy divides the first card into four; five have containers, and eve's sees the nodes of all cards."""
    folder = tmp_path_factory.mktemp("shared")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    for name, (major, minor) in numbers_of(*lab.gpus).items():
        os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (folder / name).chmod(0o666)
    path = lab.paths.policy
    good = path.read_text()
    for house in house_for(lab):
        divide(house, 4)
        tick(house)
        for name in ("alice", "bob"):
            house.ok("create", name, "--gpus", "0.25", "--class", "scavenge")
        for name in ("carol", "dave", "eve"):
            house.ok("create", name)
        house.lxc("config", "device", "add", "eve", "shared", "disk", f"source={folder}", f"path={SHARED}")
        try:
            yield house
        finally:
            path.write_text(good)


@pytest.fixture(autouse=True)
def _clear(house: House) -> Iterator[None]:
    """After each test the card is divided, nobody has any of it, and all agree about that."""
    yield
    for row in house.records().reservations:
        house.run("reservation", "cancel", row.id, "--yes")
    for name in (*FOUR, "eve"):
        house.run("release", name, "--all", "--yes")
    divide(house, 4)
    assert until(lambda: tick(house) and not house.records().assignments, limit_s=60), house.records().assignments
    verified(house)


def divide(house: House, slots: int) -> None:
    """Have the policy divide the lab's first card so."""
    path = house.lab.paths.policy
    kept = [line for line in path.read_text().splitlines() if not line.startswith("gpus:")]
    rule = f"{{mode: timeshare, slots: {slots}}}" if slots > 1 else "{mode: exclusive}"
    path.write_text("\n".join([*kept, f"gpus: {{{shared(house).uuid}: {rule}}}", ""]))


def shared(house: House) -> Card:
    """The card that is divided."""
    return house.lab.gpus[0]


def tick(house: House) -> bool:
    """One pass, as the daemon does it."""
    house.ok("daemon", "run", "--once")
    return True


def verified(house: House) -> None:
    """The inventory and LXD say the same."""
    found = house.run("inventory", "verify", "-o", "json")
    assert (found.status, found.items) == (0, []), found.out + found.err


def lend(house: House, *names: str) -> None:
    """A part of the card for each who has none, in a class that yields."""
    for name in names:
        if not house.held(name):
            house.ok("attach", name, "--gpus", "0.25", "--class", "scavenge")
    verified(house)


def parts(house: House) -> dict[str, str]:
    """Who may use which part of the card, by name."""
    rows = house.records().assignments
    mine = [row for row in rows if row.live and row.slot.card == shared(house).uuid]
    return {row.instance: row.slot.part for row in mine if row.state.value in {"active", "warned"}}


def work(house: House, *names: str) -> dict[str, Job]:
    """A job on the card in each of these containers."""
    return {name: start_job(house.lab, JobSpec(instance=name, gpu=shared(house).uuid)) for name in names}


def slots_of(house: House) -> list[dict[str, Any]]:
    """The parts of the card as `gpus` lists them."""
    (row,) = [row for row in house.ok("gpus", "-o", "json").items if row["uuid"] == shared(house).uuid]
    return list(row["slots"])


def share_of(house: House) -> int:
    """A part's share of the card's memory in bytes."""
    (row,) = [row for row in house.ok("gpus", "-o", "json").items if row["uuid"] == shared(house).uuid]
    return int(row["memory_bytes"]) // 4


def kinds(house: House, name: str, kind: str) -> list[tuple[str, str]]:
    """What the history says of that kind about a container, with the signals that were sent."""
    rows = house.ok("history", "--subject", name, "-o", "json").items
    return [(row["kind"], row["detail"].get("signal", "")) for row in rows if row["kind"] == kind]


def runs(job: Job) -> bool:
    """Whether a job's process is there and no zombie."""
    try:
        state = Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def opens(house: House, name: str) -> list[int]:
    """What opening the card's nodes answers in a container."""
    return house.opens(name, *(node.path for node in shared(house).nodes))


OPEN = [0, 0, errno.ENXIO]
"""The answers where the card is attached: there is no driver behind the third node of a lab's card."""
CLOSED = [errno.ENOENT] * 3


def test_four_share_a_card_and_nobody_else_opens_it(house: House) -> None:
    """Created with a part or lent one: a slot each; who has none is refused by the kernel, even with a node at hand."""
    lend(house, *FOUR)
    assert sorted(parts(house).values()) == ["1/4", "2/4", "3/4", "4/4"]
    assert set(parts(house)) == set(FOUR)
    assert {name: opens(house, name) for name in FOUR} == dict.fromkeys(FOUR, OPEN)
    assert opens(house, "eve") == CLOSED
    paths = [f"{SHARED}/{name}" for name in numbers_of(*house.lab.gpus)]
    assert set(house.opens("eve", *paths)) == {errno.EPERM}
    refused = house.refused(7, "attach", "eve", "--gpus", "0.25")
    assert refused.error == "no_capacity", refused.err
    assert house.refused(5, "attach", "alice", "--gpus", "+1", "--model", "* 1/4").error == "one_part"
    (row,) = [row for row in house.ok("gpus", "-o", "json").items if row["uuid"] == shared(house).uuid]
    assert (row["mode"], [slot["holder"] for slot in row["slots"]]) == ("timeshare", sorted(FOUR, key=parts(house).get))


def test_one_gives_back_and_the_neighbour_works_on(house: House) -> None:
    """Alice's work on the card ends and her part is free at once; bob's process never notices."""
    lend(house, "alice", "bob")
    jobs, mine = work(house, "alice", "bob"), parts(house)["alice"]
    house.ok("release", "alice", "--all", "--yes")
    assert not runs(jobs["alice"])
    assert runs(jobs["bob"])
    assert parts(house).keys() == {"bob"}
    assert (opens(house, "alice"), opens(house, "bob")) == (CLOSED, OPEN)
    (slot,) = [row for row in house.records().slots if row.slot == Slot.of(shared(house).uuid, mine)]
    assert slot.proven(slot.boot_id), slot
    verified(house)
    lend(house, "carol", "dave", "eve")
    assert mine in {parts(house)[name] for name in ("carol", "dave", "eve")}
    assert runs(jobs["bob"])


def test_a_booking_takes_one_part_after_a_warning_and_gives_it_back(house: House) -> None:
    """One of four in a lower class is warned, loses its part and has it again; the other three work on."""
    lend(house, *FOUR)
    jobs, before = work(house, *FOUR), parts(house)
    ran = house.ok("reserve", "eve", "--gpus", "0.25", "--for", "8s", "-o", "json")
    booked = json.loads(ran.out)["items"][0]
    assert booked["state"] == "preparing", booked
    assert until(lambda: tick(house) and "eve" in parts(house), limit_s=60)
    (victim,) = set(FOUR) - parts(house).keys()
    assert parts(house)["eve"] == before[victim]
    kinds = [row["kind"] for row in house.ok("history", "--subject", victim, "-o", "json").items]
    assert {"warned", "displaced"} <= set(kinds)
    assert {name for name in FOUR if runs(jobs[name])} == set(FOUR) - {victim}
    assert (opens(house, victim), opens(house, "eve")) == (CLOSED, OPEN)
    verified(house)
    assert until(lambda: tick(house) and parts(house) == before, limit_s=90), parts(house)
    assert {name for name in FOUR if runs(jobs[name])} == set(FOUR) - {victim}


def test_a_restart_and_a_rebuilt_inventory_keep_the_parts(house: House) -> None:
    """The container comes back with its part, and LXD alone tells who has which."""
    lend(house, *FOUR)
    before = parts(house)
    job = work(house, "bob")["bob"]
    house.ok("restart", "alice", "--yes")
    assert parts(house) == before
    assert opens(house, "alice") == OPEN
    verified(house)
    house.ok("inventory", "rebuild", "--yes")
    assert parts(house) == before
    assert {card.layout for card in house.records().cards if card.uuid == shared(house).uuid} == {"4"}
    verified(house)
    tick(house)
    assert parts(house) == before
    assert runs(job)


def test_who_oversteps_is_warned_then_ended_and_the_others_work_on(house: House) -> None:
    """Four on one card, each line with its own use: what bob took too much with ends, and his older work stays."""
    lend(house, *FOUR)
    jobs, share = work(house, *FOUR), share_of(house)
    tick(house)
    used = {slot["holder"]: slot["memory_used_bytes"] for slot in slots_of(house)}
    assert used == dict.fromkeys(FOUR, 1024**3)
    greedy = start_job(house.lab, JobSpec(instance="bob", gpu=shared(house).uuid, memory_bytes=share))
    assert until(lambda: tick(house) and kinds(house, "bob", "memory_over"), limit_s=30)
    assert runs(greedy)
    listed = house.ok("gpus").out
    (line,) = [line for line in listed.splitlines() if " bob " in line]
    assert "its newest programs are ended" in line, listed
    assert [line.split()[0][-4:] for line in listed.splitlines() if "1/4 of" in line] == [
        "/1/4",
        "/2/4",
        "/3/4",
        "/4/4",
    ]
    assert until(lambda: tick(house) and not runs(greedy), limit_s=60)
    assert {name for name in FOUR if runs(jobs[name])} == set(FOUR), "a neighbour or bob's older program was ended"
    assert kinds(house, "bob", "memory_ended") == [("memory_ended", "TERM")]
    assert all(not kinds(house, name, "memory_ended") for name in FOUR if name != "bob")
    near = house.ok("history", "--subject", "alice", "-o", "json").items
    assert [row["rule"] for row in near if row["kind"] == "told"] == ["memory_neighbour"]
    assert "got TERM" in house.ok("gpu", "show", shared(house).uuid).out


def test_a_run_has_a_part_and_leaves_nothing(house: House) -> None:
    """The status of `lxgpu run --gpus 0.25` passes through; alice's own part works on, and the run's is free again."""
    lend(house, "alice")
    job = work(house, "alice")["alice"]
    node = shared(house).nodes[0].path
    ran = house.run("run", "--owner", "alice", "--gpus", "0.25", "--", "sh", "-c", f": <{node} && exit 7")
    assert ran.status == 7, ran.err
    assert not [name for name in house.instances() if name.startswith("run-")]
    assert parts(house).keys() == {"alice"}
    assert runs(job)
    lend(house, "bob", "carol", "dave")


def test_whole_again_once_nobody_has_any_of_it(house: House) -> None:
    """Refused with names while parts are held; done by the daemon when the last one is back."""
    lend(house, "alice", "bob")
    divide(house, 1)
    tick(house)
    ran = house.refused(6, "gpu", "mode", shared(house).uuid)
    assert all(name in ran.err for name in ("alice", "bob")), ran.err
    assert parts(house).keys() == {"alice", "bob"}
    house.ok("release", "alice", "--all", "--yes")
    house.ok("release", "bob", "--all", "--yes")
    tick(house)
    assert {card.layout for card in house.records().cards} == {""}
    verified(house)
    house.ok("attach", "eve", "--gpu", shared(house).uuid)
    assert parts(house) == {"eve": "whole"}
    assert opens(house, "eve") == OPEN
