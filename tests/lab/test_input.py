"""Bad input is refused whole before anything changes; and no command needs a way out once the image is there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, house_for

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

# Each ends with status 2; KEY, SECRET and RUBBISH stand for files.
REFUSED = """
create Alice
create al_ice
create 1alice
create al.ice
create -- -alice
create alice-
create {"a" * 64}
create alice --owner Bob
create alice --gpus two
create alice --gpus -1
create alice --gpus 1.5
create alice --gpus 1 --gpu 0000:00:00.0
create alice --memory 1QB
create alice --memory 4
create alice --disk -5GiB
create alice --cpu 0
create alice --processes 3
create alice --for 5parsecs
create alice --for 0s
create alice --expires never
create alice --ssh-key RUBBISH
create alice --ssh-key SECRET
create alice --ssh-key /nowhere/key.pub
create alice --ssh-key KEY --ssh-key SECRET
create alice --from KEY
create
create alice --nonsense
attach ann
attach ann --gpus 1 --gpu 0000:00:00.0
attach ann --gpus many
release ann
release ann --all --gpus 1
delete ann
delete ann --purge
suspend ann --reason x
gpu close
nonsense
"""
CLASS = """name,gpus,memory,key,profile,expires,colour
ann,1,,,,,
Bad_Name,x,1QB,rubbish,,yesterday,
ben,1,,,,
ben,-1,,,,,
,,,,,,
"""
NAMES = """name,profile,image,class,model
ok,,,,
p,nosuch,,,
i,,nosuch,,
c,,,nosuch,
m,,,,H100
"""
POLICY = """version: 1
timezone: Mars/Olympus
contact: nobody
classes: {normal: {priority: high}}
defaults: {class: none, limit: -1, memory: 1QB}
users: {Alice: {limit: 1}, bob: {limt: 2}}
"""


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann has a container and a card."""
    for house in house_for(lab):
        house.ok("create", "ann", "--gpus", "1")
        yield house


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A public key, its private one, and a text that is neither."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "id")], check=True)
    (tmp_path / "rubbish").write_text("ssh-ed25519 AAAA%%% no key\n")
    return {"KEY": f"{tmp_path}/id.pub", "SECRET": f"{tmp_path}/id", "RUBBISH": f"{tmp_path}/rubbish"}


def test_bad_words(house: House, files: dict[str, str]) -> None:
    """Names, numbers, sizes, times and keys that are none, and questions nobody can answer: status 2, nothing done."""
    before = house.world()
    for line in REFUSED.replace('{"a" * 64}', "a" * 64).strip().splitlines():
        words = [files.get(word, word) for word in line.split()]
        ran = house.run(*words)
        assert ran.status == 2, f"lxgpu {line}: {ran.status}\n{ran.err}"
        assert ran.error, f"lxgpu {line}: {ran.err}"
        assert "PRIVATE" not in ran.err + ran.out
    assert house.world() == before
    house.settled()


def test_a_bad_class_file(house: House, tmp_path: Path) -> None:
    """Every mistake of every row at once, with its line; the good rows are not made either."""
    before = house.world()
    file = tmp_path / "class.csv"
    file.write_text(CLASS)
    header = house.refused(2, "create", "--from", str(file))
    assert "colour" in header.err
    file.write_text(CLASS.replace(",colour", "").replace(",\n", "\n"))
    ran = house.refused(2, "create", "--from", str(file))
    for place, words in (
        (3, "name"),
        (3, "gpus"),
        (3, "memory"),
        (3, "key"),
        (3, "expires"),
        (5, "gpus"),
        (5, "line 4"),
    ):
        assert any(f"class.csv:{place}:" in line and words in line for line in ran.err.splitlines()), (place, words)
    file.write_text(NAMES)
    ran = house.refused(2, "create", "--from", str(file))
    for place, words in ((3, "profile"), (4, "image"), (5, "class"), (6, "model")):
        assert any(f"class.csv:{place}:" in line and words in line for line in ran.err.splitlines()), (place, words)
    assert house.world() == before


def test_a_bad_policy(house: House, tmp_path: Path) -> None:
    """All mistakes of a policy at once with line and column; commands go on by the last good one, and say so."""
    before = house.world()
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    ran = house.refused(2, "policy", "check", str(file))
    for line in (2, 4, 5, 6):
        assert f"policy.yaml:{line}:" in ran.err, line
    assert house.world() == before
    good = house.lab.paths.policy.read_text()
    house.lab.paths.policy.write_text(POLICY)
    try:
        ran = house.ok("release", "ann", "--all")
        assert "policy" in ran.err
    finally:
        house.lab.paths.policy.write_text(good)
    house.ok("attach", "ann", "--gpus", "1")
    house.settled()


class Cut(House):
    """The lab from a network that reaches its bridge and nothing else."""

    def __init__(self, lab: Lab, space: str) -> None:
        super().__init__(lab)
        self.space = space

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command of lxgpu there."""
        return super().start(*words, before=("nsenter", f"--net=/run/netns/{self.space}", "--"))


@pytest.fixture
def cut(house: House) -> Iterator[Cut]:
    """No way out: not for the commands, nor for what runs in the containers."""
    lab, number = house.lab, os.getpid()
    space, link, table = f"lxgpu-{number}", f"lgcut{number}"[:15], f"lxgpu_{number}"
    here, there = (f"198.18.{number % 250}.{4 * (number // 250 % 60) + last}" for last in (1, 2))
    rules = f"add chain inet {table} f {{ type filter hook forward priority -5; }}; add rule inet {table} f iifname "
    rules += f'"{lab.bridge}" oifname != {{ "{lab.bridge}", "{link}" }} counter drop'
    steps = [
        f"ip netns add {space}",
        f"ip link add {link} type veth peer name eth0 netns {space}",
        f"ip addr add {here}/30 dev {link}",
        f"ip link set {link} up",
        f"ip -n {space} addr add {there}/30 dev eth0",
        f"ip -n {space} link set eth0 up",
        f"ip -n {space} link set lo up",
        f"ip -n {space} route add {lab.subnet} via {here}",
    ]
    try:
        for step in steps:
            subprocess.run(step.split(), check=True)
        subprocess.run(["nft", f"add table inet {table}; {rules}"], check=True)
        yield Cut(lab, space)
    finally:
        subprocess.run(["nft", f"delete table inet {table}"], check=False)
        subprocess.run(["ip", "netns", "del", space], check=False)


def test_no_way_out(cut: Cut) -> None:
    """Create, cards in and out, stop and start, delete: all without a route to anywhere but the lab's bridge."""
    probe = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    away = subprocess.run(
        ["nsenter", f"--net=/run/netns/{cut.space}", "python3", "-c", probe],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Network is unreachable" in away.stderr
    cut.ok("create", "cat", "--gpus", "1")
    cut.ok("attach", "cat", "--gpus", "2")
    cut.ok("release", "cat", "--all")
    cut.ok("restart", "cat", "--yes")
    cut.ok("ls", "-o", "wide")
    cut.ok("gpus")
    cut.settled()
    cut.ok("delete", "cat", "--purge", "--yes")
    cut.settled()
