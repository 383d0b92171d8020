"""A card in MIG slices on a real LXD, NVML and the driver's capabilities pretended: the kernel keeps them apart."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House, house_for, until
from labkit import lab_for, lab_name

from lxgpu.lab import Lab, LabSpec
from lxgpu.lab.faults import set_fault
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab

LAYOUT = ("3g.20gb", "2g.10gb", "2g.10gb")
ALLOWED, REFUSED, ABSENT = errno.ENXIO, errno.EPERM, errno.ENOENT
"""What opening a node answers: there is no driver behind it, the kernel's rule is against it, it is not inside."""


@pytest.fixture(scope="module")
def mig_lab() -> Iterator[Lab]:
    """A lab whose first card can be divided into MIG slices."""
    yield from lab_for(LabSpec(name=lab_name("m"), gpus=2, models=("A100 40GB", "RTX 3090")))


@pytest.fixture(scope="module")
def house(mig_lab: Lab) -> Iterator[House]:
    """Alice has had a container since before the card was divided, into a large slice and two small ones."""
    for house in house_for(mig_lab):
        house.ok("create", "alice")
        wanted(house, *LAYOUT)
        house.ok("gpu", "mode", card(house))
        yield house


@pytest.fixture(autouse=True)
def _clear(house: House) -> Iterator[None]:
    """After each test nobody has a slice, and all agree about that."""
    yield
    for row in house.records().assignments:
        house.ok("release", row.instance, "--all", "--yes")
    verified(house)


def card(house: House) -> str:
    """The UUID of the card that is divided."""
    return house.lab.gpus[0].uuid


def wanted(house: House, *profiles: str) -> None:
    """Have the policy divide the card so; into nothing: leave it whole."""
    path = house.lab.paths.policy
    kept = [line for line in path.read_text().splitlines() if not line.startswith("gpus:")]
    rule = f"{{mode: mig, slices: [{', '.join(profiles)}]}}" if profiles else "{mode: exclusive}"
    path.write_text("\n".join([*kept, f"gpus: {{{card(house)}: {rule}}}", ""]))


def verified(house: House) -> None:
    """The inventory and LXD say the same."""
    found = house.run("inventory", "verify", "-o", "json")
    assert (found.status, found.items) == (0, []), found.out + found.err


def slots(house: House) -> list[dict[str, Any]]:
    """The slices as `gpus` lists them."""
    return next(row["slots"] for row in house.ok("gpus", "-o", "json").items if row["uuid"] == card(house))


def part(house: House, name: str) -> str:
    """Which slice a container has."""
    (row,) = [row for row in house.records().assignments if row.live and row.instance == name]
    return row.slot.part


def caps(house: House, name: str) -> list[tuple[str, int, int]]:
    """The capability nodes that LXD was told for a container: path, and device number."""
    rows = house.instances()[name]["devices"].values()
    mine = [row for row in rows if row["type"] == "unix-char" and "nvidia-caps" in row["path"]]
    return sorted((row["path"], int(row["major"]), int(row["minor"])) for row in mine)


def test_three_slices_are_lent_and_the_kernel_keeps_them_apart(house: House) -> None:
    """One made with a slice, two lent theirs while they run: each opens its own capabilities, and no other's."""
    if "bob" not in house.instances():
        house.ok("create", "bob", "--mig", "2g.10gb")
    if "carol" not in house.instances():
        house.ok("create", "carol")
    for name, profile in (("alice", "3g.20gb"), ("bob", "2g.10gb"), ("carol", "2g.10gb")):
        if not house.held(name):
            house.ok("attach", name, "--mig", profile)
    verified(house)
    assert {name: part(house, name) for name in ("alice", "bob", "carol")} == {
        "alice": "1-3g.20gb",
        "bob": part(house, "bob"),
        "carol": ({"2-2g.10gb", "3-2g.10gb"} - {part(house, "bob")}).pop(),
    }
    node = f"/dev/nvidia{house.lab.gpus[0].minor}"
    of = {name: caps(house, name) for name in ("alice", "bob", "carol")}
    assert [len(nodes) for nodes in of.values()] == [2, 2, 2]
    assert len({one for nodes in of.values() for one in nodes}) == 6
    for name, mine in of.items():
        assert house.opens(name, node, *(path for path, _, _ in mine)) == [ALLOWED] * 3
        assert house.opens(name, "/dev/nvidiactl") == [ALLOWED]
        others = [path for other, nodes in of.items() if other != name for path, _, _ in nodes]
        assert house.opens(name, *others) == [ABSENT] * 4
    assert refused_by_number(house, "alice", of["bob"] + of["carol"]) == [REFUSED] * 4
    assert refused_by_number(house, "bob", of["alice"]) == [REFUSED] * 2
    assert house.refused(7, "run", "--owner", "alice", "--mig", "2g.10gb", "--", "true").error == "no_capacity"
    assert slots(house)[0]["holder"] == "alice"


def refused_by_number(house: House, name: str, nodes: list[tuple[str, int, int]]) -> list[int]:
    """What the kernel answers in a container that is handed nodes of these numbers by LXD, behind lxgpu's back."""
    answers = []
    for path, major, minor in nodes:
        numbers = (f"major={major}", f"minor={minor}")
        house.lxc("config", "device", "add", name, "stolen", "unix-char", f"path={path}", *numbers, "mode=0666")
        try:
            answers += house.opens(name, path)
        finally:
            house.lxc("config", "device", "remove", name, "stolen")
    return answers


def test_who_gives_a_slice_back_ends_and_the_neighbour_works_on(house: House) -> None:
    """A slice is busy, proven and given back by its own processes; the other one's job never notices."""
    house.ok("attach", "alice", "--mig", "3g.20gb")
    house.ok("attach", "bob", "--mig", "2g.10gb")
    jobs = {name: start_job(house.lab, JobSpec(instance=name, memory_bytes=2 << 30)) for name in ("alice", "bob")}
    used = {slot["holder"]: slot["memory_used_bytes"] for slot in slots(house) if slot["holder"]}
    assert used == {"alice": 2 << 30, "bob": 2 << 30}
    mine = caps(house, "alice")
    house.ok("release", "alice", "--all", "--yes")
    assert runs(jobs["bob"].pid)
    assert not runs(jobs["alice"].pid)
    assert house.opens("alice", *(path for path, _, _ in mine)) == [ABSENT] * 2
    assert refused_by_number(house, "alice", mine) == [REFUSED] * 2


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_slice_goes_and_a_whole_card_stays(house: House) -> None:
    """What all cards share is inside as long as either is there, whichever goes first."""
    house.ok("attach", "alice", "--mig", "3g.20gb")
    house.ok("attach", "alice", "--gpus", "1", "--model", "3090")
    shared = ("/dev/nvidiactl", "/dev/nvidia-uvm")
    both = [node.path for node in house.lab.gpus[1].nodes]
    assert house.opens("alice", *shared, *both) == [ALLOWED, ALLOWED, 0, 0, ALLOWED]
    house.ok("release", "alice", "--gpu", slots(house)[0]["slot"], "--yes")
    assert house.opens("alice", *shared, *both) == [ALLOWED, ALLOWED, 0, 0, ALLOWED]
    house.ok("attach", "alice", "--mig", "3g.20gb")
    house.ok("release", "alice", "--gpu", house.lab.gpus[1].uuid, "--yes")
    assert house.opens("alice", *shared) == [ALLOWED, ALLOWED]
    assert house.opens("alice", *(path for path, _, _ in caps(house, "alice"))) == [ALLOWED] * 2


def test_slices_outlive_a_restart_of_the_machine_and_a_lost_inventory(house: House) -> None:
    """Forgotten by the card: missing, lent to nobody, made again by a pass. Rebuilt: LXD alone tells who has which."""
    house.ok("attach", "alice", "--mig", "3g.20gb")
    house.lxc("stop", "--force", "alice")
    set_fault(house.lab, "all", "reboot")
    assert {slot["state"] for slot in slots(house) if not slot["holder"]} == {"missing"}
    assert house.refused(7, "attach", "bob", "--mig", "2g.10gb").error == "no_capacity"
    assert {row["code"] for row in house.run("inventory", "verify", "-o", "json").items} == {"missing_slice"}
    assert "NVML does not show this MIG slice" in house.run("doctor").out
    house.ok("daemon", "run", "--once")
    assert {slot["state"] for slot in slots(house) if not slot["holder"]} == {"free"}
    house.ok("start", "alice")
    assert house.opens("alice", *(path for path, _, _ in caps(house, "alice"))) == [ALLOWED] * 2
    house.ok("attach", "bob", "--mig", "2g.10gb")
    before = {name: (part(house, name), caps(house, name)) for name in ("alice", "bob")}
    house.ok("inventory", "rebuild", "--yes")
    house.ok("daemon", "run", "--once")
    assert {name: (part(house, name), caps(house, name)) for name in ("alice", "bob")} == before
    assert {slot["state"] for slot in slots(house) if not slot["holder"]} == {"free"}


def test_layouts_that_cannot_be_are_refused_and_the_card_becomes_whole(house: House) -> None:
    """What the card does not offer is said with what it does; who has a slice is in the way; then it is one card."""
    wanted(house, "4g.20gb", "1g.10gb", "1g.10gb", "1g.5gb")
    refused = house.refused(2, "gpu", "mode", card(house))
    assert "1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb" in refused.err, refused.err
    house.ok("attach", "alice", "--mig", "3g.20gb")
    wanted(house)
    assert "alice" in house.refused(6, "gpu", "mode", card(house)).err
    house.ok("release", "alice", "--all", "--yes")
    assert until(lambda: house.ok("gpu", "mode", card(house)))
    assert [slot["state"] for slot in slots(house)] == ["free"]
    house.ok("attach", "alice", "--model", "A100", "--gpus", "1")
    assert house.opens("alice", *(node.path for node in house.lab.gpus[0].nodes)) == [0, 0, ALLOWED]
