"""Rebuild, resize, rename, snapshots and keys on a real LXD: what the person and the kernel see afterwards."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

MIB = 2**20


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """The lab, empty before and after."""
    yield from house_for(lab)


@pytest.fixture(scope="module")
def alice(house: House) -> str:
    """A running container with one card."""
    name = f"{house.lab.name}a"
    house.ok("create", name, "--gpus", "1")
    return name


def cgroup(house: House, name: str, controller: str, file: str) -> str:
    """A file of a container's cgroup on the host (version 1, or the unified tree)."""
    lines = Path(f"/proc/{house.init(name)}/cgroup").read_text().splitlines()
    paths = {kind: path for _, kinds, path in (line.split(":", 2) for line in lines) for kind in kinds.split(",")}
    top = paths.get(controller, paths.get("", "/")).split("/")[1]
    for root in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
        place = Path(root, top, file)
        if place.exists():
            return place.read_text().strip()
    return pytest.fail(f"no {file} of {controller}")


def test_limits_hold_in_the_kernel_at_once(house: House, alice: str) -> None:
    """CPU, memory and processes in the host's cgroups, /dev/shm inside, without a restart; several times over."""
    init = house.init(alice)
    for cpu, memory, processes in ((2, 700, 400), (1, 800, 700)):
        house.ok("resize", alice, "--cpu", f"{cpu}", "--memory", f"{memory}MiB", "--processes", f"{processes}")
        assert house.sh(alice, "nproc") == f"{cpu}"
        assert cgroup(house, alice, "memory", "memory.limit_in_bytes") == f"{memory * MIB}"
        assert cgroup(house, alice, "pids", "pids.max") == f"{processes}"
        assert house.sh(alice, "df -B1 --output=size /dev/shm | tail -n 1") == f"{memory * MIB // 2}"
    assert house.init(alice) == init
    (row,) = house.ok("ls", "-o", "json").items
    assert row["limits"] == {"cpu": 1, "memory_bytes": 800 * MIB, "disk_bytes": 2048 * MIB, "processes": 700}


def test_a_disk_is_not_made_smaller_than_what_is_in_it(house: House, alice: str) -> None:
    """System or home too full: refused, nothing changed, and the limit can still be raised; smaller by less works."""
    house.ssh(alice, "head -c 300M /dev/urandom >big; sync")
    before = house.world()["instances"]
    ran = house.refused(6, "resize", alice, "--disk", "330MiB", "--memory", "900MiB")
    assert ran.error == "disk_in_use"
    assert "home" in ran.err
    after = house.world()["instances"]
    assert after[alice][1] == before[alice][1]
    house.ok("resize", alice, "--disk", "700MiB")
    assert house.ssh(alice, "fallocate -l 600M more; echo $?").out == "1\n"
    house.ok("resize", alice, "--disk", "2GiB")
    assert house.ssh(alice, "fallocate -l 600M more; echo $?; rm -f more big; sync").out == "0\n"


def test_what_does_not_fit_is_put_back(house: House, alice: str) -> None:
    """More in /dev/shm or in memory than there would be: an error with its reason, and the old limits in the kernel."""
    memory = cgroup(house, alice, "memory", "memory.limit_in_bytes")
    house.sh(alice, "head -c 200M /dev/zero >/dev/shm/x")
    cpus = house.sh(alice, "nproc")
    other = "2" if cpus == "1" else "1"
    assert house.refused(8, "resize", alice, "--memory", "300MiB", "--cpu", other).error == "limits_failed"
    assert until(lambda: house.sh(alice, "nproc") == cpus)
    house.sh(alice, "rm /dev/shm/x")
    hog = "import time; x = b'x' * (180 << 20); time.sleep(90)"
    house.sh(alice, f'setsid python3 -c "{hog}" >/dev/null 2>&1 & echo $! >/root/hog; sleep 3')
    house.refused(8, "resize", alice, "--memory", "100MiB")
    house.sh(alice, "kill $(cat /root/hog)")
    assert cgroup(house, alice, "memory", "memory.limit_in_bytes") == memory
    assert house.sh(alice, "nproc; df -B1 --output=size /dev/shm | tail -n 1") == f"{cpus}\n{int(memory) // 2}"
    house.settled()


def test_a_fresh_system_under_home_card_and_keys(house: House, alice: str) -> None:
    """The login goes to a new system with new host keys; home, card, port and limits are those of before."""
    house.ssh(alice, "echo kept >file; sudo touch /etc/gone")
    marks = "cat /etc/ssh/ssh_host_ed25519_key.pub /etc/machine-id"
    before, was = house.sh(alice, marks), house.instances()[alice]
    ran = house.ok("rebuild", alice, "--yes")
    assert "host keys are new" in ran.err
    assert house.ssh(alice, "cat file; ls /etc/gone 2>&1 | wc -w; id -un").out.split()[0] == "kept"
    assert house.sh(alice, "test -e /etc/gone || echo fresh") == "fresh"
    assert set(house.sh(alice, marks).split()).isdisjoint(before.split()[1:2] + before.split()[-1:])
    now = house.instances()[alice]
    assert now["devices"] == was["devices"]
    assert now["config"]["volatile.uuid"] == was["config"]["volatile.uuid"]
    house.settled()


@pytest.mark.parametrize("moment", ["lxgpu-new", "lxgpu-old", "start"])
def test_killed_in_the_middle_of_a_rebuild(house: House, alice: str, moment: str) -> None:
    """Kill -9 while the new system is made, while the old one is put aside, at the start: the next command ends it."""
    house.sh(alice, "touch /etc/gone")

    def reached() -> bool:
        rows = house.query("/1.0/instances?recursion=1")
        if moment == "start":
            return any(row["name"] == alice and row["status"] == "Running" for row in rows)
        return any(row["name"] == f"{moment}-{alice}" for row in rows)

    process = house.start("rebuild", alice, "--yes")
    if moment == "start":
        assert until(lambda: not reached())
    assert until(reached)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    house.ok("gpu", "open", house.lab.gpus[-1].uuid)
    assert house.sh(alice, "test -e /etc/gone || echo fresh") == "fresh"
    assert house.ssh(alice, "cat file").out == "kept\n"
    house.settled()


def test_another_name_for_the_same_machine(house: House, alice: str) -> None:
    """Renamed and back: the person logs in under their own name to the same home and card."""
    other = f"{alice}x"
    assert house.refused(2, "rename", alice, other).error == "confirm"
    house.ok("rename", alice, other, "--yes")
    assert house.sh(other, "hostname") == other
    assert house.ssh(other, "id -un; cat file").out.split() == [alice, "kept"]
    holders = {row["slots"][0]["holder"] for row in house.ok("gpus", "-o", "json").items}
    assert holders == {other, None}
    house.ok("inventory", "verify")
    process = house.start("rename", other, alice, "--yes")
    assert until(lambda: alice in house.instances())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    house.ok("gpu", "open", house.lab.gpus[-1].uuid)
    assert house.ssh(alice, "cat file").out == "kept\n"
    house.settled()


def test_back_to_a_snapshot_with_the_card_of_today(house: House, alice: str) -> None:
    """The system goes back; the card that she holds today is inside, the one of then is not, and bob has that one."""
    then = house.card_of(alice)
    house.ok("snapshot", alice, "then")
    house.sh(alice, "touch /etc/later")
    house.ok("release", alice, "--all", "--yes")
    bob = f"{alice}b"
    house.ok("create", bob, "--gpu", then.uuid)
    other = next(card for card in house.lab.gpus if card.uuid != then.uuid)
    house.ok("attach", alice, "--gpu", other.pci)
    house.ok("restore", alice, "then", "--yes")
    assert house.sh(alice, "test -e /etc/later || echo back") == "back"
    assert house.card_of(alice).uuid == other.uuid
    assert house.ssh(alice, "cat file").out == "kept\n"
    house.settled()

    house.lxc("stop", "--force", alice)
    house.lxc("restore", alice, "then")
    assert house.card_of(alice).uuid == then.uuid, "LXD's own restore brings the old device back"
    house.ok("start", alice)
    assert house.card_of(alice).uuid == other.uuid
    assert house.card_of(bob).uuid == then.uuid
    house.settled()
    assert house.refused(6, "rebuild", alice, "--yes").error == "conflict"
    house.ok("snapshot", alice, "--delete", "then", "--yes")
    house.ok("delete", bob, "--purge", "--yes")


def test_keys_count_at_once(house: House, alice: str, tmp_path: Path) -> None:
    """An added key lets in, a removed one does not; the last one is taken only with --yes."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "new", "-f", str(key)], check=True)
    door = house.ok("ls", "-o", "json").items[0]["ssh"]
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes")
    login = ["ssh", *(word for option in options for word in ("-o", option)), "-i", str(key)]
    login += ["-p", str(door["port"]), f"{door['user']}@{door['host']}", "id", "-un"]

    def enters() -> bool:
        return subprocess.run(login, check=False, capture_output=True, timeout=30).returncode == 0

    assert not enters()
    house.ok("keys", "add", alice, str(key.with_suffix(".pub")))
    assert enters()
    rows = house.ok("keys", "ls", alice, "-o", "json").items
    assert [row["comment"] for row in rows][-1] == "new"
    house.ok("keys", "rm", alice, rows[-1]["fingerprint"])
    assert not enters()
    assert house.refused(2, "keys", "rm", alice, rows[0]["fingerprint"]).error == "confirm"
