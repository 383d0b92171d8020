"""Many at once: one wins each card, everybody gets numbers of their own, and who loses leaves nothing."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, Ran, house_for
from labkit import lab_for, lab_name

from lxgpu.lab import Lab, LabSpec

pytestmark = pytest.mark.lab

MANY = [f"p{number}" for number in range(16)]


@pytest.fixture(scope="module")
def fresh_lab() -> Iterator[Lab]:
    """A lab that nobody has used: no inventory, no identity, no template."""
    yield from lab_for(LabSpec(name=lab_name("c"), gpus=4))


@pytest.fixture(scope="module")
def house(fresh_lab: Lab) -> Iterator[House]:
    """The fresh lab, with people at it."""
    yield from house_for(fresh_lab)


def together(house: House, *commands: tuple[str, ...]) -> list[Ran]:
    """Several commands at the same moment, to their ends."""
    running = [house.start(*words) for words in commands]
    ends = [process.communicate(timeout=280) for process in running]
    return [Ran(process.returncode, *end) for process, end in zip(running, ends, strict=True)]


def statuses(rans: list[Ran]) -> list[int]:
    """How they ended, in order."""
    return sorted(ran.status for ran in rans)


def test_sixteen_creates_for_four_cards(house: House) -> None:
    """On a lab just made, all at once: exactly four win; the others are told why and leave nothing anywhere."""
    rans = together(house, *(("create", name, "--gpus", "1") for name in MANY))
    won = {name for name, ran in zip(MANY, rans, strict=True) if ran.status == 0}
    told = "\n".join(f"{name}: {ran.status} {ran.err}" for name, ran in zip(MANY, rans, strict=True))
    assert len(won) == 4, told
    assert {ran.status for ran in rans if ran.status} <= {5, 7}, told
    assert all(ran.error in {"no_capacity", "not_free"} for ran in rans if ran.status), told
    house.settled()
    records = house.records()
    assert {row.name for row in records.persons} == {row.person for row in records.keys} == won
    assert {row.name for row in records.instances} == won == set(house.instances())
    assert len({row.ssh_port for row in records.persons} | {row.uid for row in records.persons}) == 8
    assert {path.stem for path in (house.lab.paths.state / "keys").iterdir()} == won
    assert {house.ssh(name, "id -un").out.strip() for name in won} == won


def test_a_class_at_once(house: House, tmp_path: Path) -> None:
    """`create --from class.csv` makes six containers side by side, each with its own key; a second run makes none."""
    house.clean()
    rows = ["name,gpus,memory,key"]
    for number in range(6):
        key = tmp_path / f"k{number}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
        rows.append(f"s{number},{int(number < 3)},512MiB,{key.with_suffix('.pub').read_text().strip()}")
    file = tmp_path / "class.csv"
    file.write_text("\n".join(rows) + "\n")
    made = house.run("create", "--from", str(file), "-o", "json")
    assert made.status == 0, made.err
    assert [row["name"] for row in made.items] == [f"s{number}" for number in range(6)]
    assert [len(row["gpus"]) for row in made.items] == [1, 1, 1, 0, 0, 0]
    house.settled()
    for number in (0, 5):
        (house.lab.paths.state / "keys").mkdir(exist_ok=True)
        (house.lab.paths.state / "keys" / f"s{number}").write_bytes((tmp_path / f"k{number}").read_bytes())
        (house.lab.paths.state / "keys" / f"s{number}").chmod(0o600)
        assert house.ssh(f"s{number}", "id -un").out.strip() == f"s{number}"
    assert house.ssh("s5", "id -un").status == 0
    before = house.world()
    assert house.run("create", "--from", str(file), "--if-not-exists").status == 0
    assert house.world() == before


def test_one_card_and_many_hands(house: House) -> None:
    """Three want the last card, one of them twice: one attach wins, and each of two at the same container is told."""
    (free,) = [uuid for uuid, (_, state) in house.slots().items() if state == "free"]
    wishes = [("attach", name, "--gpu", free) for name in ("s3", "s3", "s4", "s5")]
    rans = together(house, *wishes)
    assert statuses(rans)[0] == 0
    assert statuses(rans)[1] != 0, "two won one card"
    assert all(ran.status in {0, 6, 7} and (ran.error or not ran.status) for ran in rans), [ran.err for ran in rans]
    house.settled()


def test_take_and_give_at_once(house: House) -> None:
    """Release, attach and delete of the same containers at once: whatever the order, all is whole afterwards."""
    holders = {name for name, _ in house.slots().values() if name}
    one, two = sorted(holders)[:2]
    for _ in range(2):
        rans = together(
            house,
            ("release", one, "--all", "--yes"),
            ("release", one, "--all", "--yes"),
            ("attach", one, "--gpus", "+1"),
            ("attach", "s5", "--gpus", "+1"),
            ("restart", two, "--yes"),
            ("release", two, "--all", "--yes"),
        )
        assert all(ran.status in {0, 6, 7} and (ran.error or not ran.status) for ran in rans), [ran.err for ran in rans]
        house.settled()
    rans = together(
        house, ("delete", one, "--purge", "--yes"), ("attach", one, "--gpus", "2"), ("delete", one, "--purge", "--yes")
    )
    assert all(ran.status in {0, 3, 6, 7} for ran in rans), [ran.err for ran in rans]
    if one in house.instances():
        house.ok("delete", one, "--purge", "--yes")
    house.settled()


def test_a_class_is_over(house: House, tmp_path: Path) -> None:
    """One command hands every home in as an archive, and takes the containers away; one that is stopped stays."""
    names = sorted(name for name in house.instances() if name.startswith("s"))[-3:]
    assert len(names) == 3
    house.ok("stop", names[0], "--yes")
    for name in names[1:]:
        house.sh(name, f"echo of {name} > /home/{name}/work.txt")
    file, homes = tmp_path / "class.csv", tmp_path / "homes"
    file.write_text("name\ngone\n" + "\n".join(names) + "\n")
    homes.mkdir()
    ran = house.run("delete", "--from", str(file), "--homes", str(homes), "--yes")
    assert (ran.status, ran.error) == (10, "partly_failed"), ran.err
    assert f"{names[0]} does not run" in ran.err
    assert "not there any more: gone" in ran.err
    assert sorted(path.name for path in homes.iterdir()) == [f"{name}.tar.gz" for name in names[1:]]
    for name in names[1:]:
        with tarfile.open(homes / f"{name}.tar.gz") as archive:
            found = archive.extractfile(f"{name}/work.txt")
            assert found is not None
            assert found.read() == f"of {name}\n".encode()
    assert {name for name in names if name in house.instances()} == {names[0]}
