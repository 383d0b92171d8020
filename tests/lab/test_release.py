"""`release` ends or refuses by rule what still holds the card, and nobody gets it before it is proven free."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from house import House, house_for, until
from insiders import AGAIN, BOMB, FILL, HOLD, TAKE

from lxgpu.lab import Lab
from lxgpu.lab.jobs import JobSpec, start_job
from lxgpu.lab.spec import Card

pytestmark = pytest.mark.lab

TERM_WAIT_S = 2.0
"""The lab policy's."""


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann has two hundred processes at most, and ben is her neighbour; neither holds a card."""
    for house in house_for(lab):
        house.ok("create", "ann", "--processes", "200")
        house.ok("create", "ben")
        yield house


@pytest.fixture
def card(house: House) -> Card:
    """The one card that ann holds when the test begins."""
    if house.held("ann"):  # what a failed test has left
        house.run("release", "ann", "--all", "--yes")
    house.ok("attach", "ann", "--gpus", "1")
    return house.card_of("ann")


def program(house: House, name: str, text: str, *words: str, unit: str) -> None:
    """Run a Python program as a service inside."""
    house.sh(name, f"cat >/root/{unit}.py <<'X'\n{text}X\nsystemctl reset-failed {unit} 2>/dev/null; true")
    argv = [
        "systemd-run",
        "--quiet",
        "--property=TasksMax=infinity",
        f"--unit={unit}",
        "python3",
        f"/root/{unit}.py",
        *words,
    ]
    house.lxc("exec", name, "-T", "--", *argv)


def hold(house: House, card: Card, name: str, *, on_term: str = "", park: str = "") -> int:
    """Start a process in ann's container that holds the card and is not on NVML's list; its pid on the host."""
    nodes = [node.path for node in card.nodes if "/dri/" in node.path]
    how = json.dumps({"name": name, "nodes": nodes, "on_term": on_term, "park": park})
    house.sh("ann", f"rm -f /root/{name}.log")
    program(house, "ann", HOLD, how, unit=name)
    assert until(lambda: "holds" in log(house, name)), house.sh("ann", f"journalctl -u {name} | tail -n 3")
    return pid_of(house, name)


def log(house: House, name: str) -> str:
    """What a holder has written."""
    return house.sh("ann", f"cat /root/{name}.log", check=False)


def pid_of(house: House, unit: str) -> int:
    """The pid on the host of a holder's process."""
    space = Path(f"/proc/{house.init('ann')}/ns/pid").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            if f"/root/{unit}.py".encode() in words and (folder / "ns/pid").readlink() == space:
                return int(folder.name)
    raise AssertionError(f"{unit} does not run")


def alive(pid: int) -> bool:
    """Whether a process runs."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    return False


def given_back(house: House, card: Card) -> None:
    """The card is free, its nodes are away, and the fence has nothing against it."""
    house.settled()
    records = house.records()
    assert not [row for row in records.assignments if row.slot.gpu == card.uuid]
    (slot,) = [row for row in records.slots if row.slot.gpu == card.uuid]
    assert slot.proven(Path("/proc/sys/kernel/random/boot_id").read_text().strip())


def lent_on(house: House, card: Card) -> None:
    """The card is free, and ben can have it and open it."""
    given_back(house, card)
    house.ok("attach", "ben", "--gpu", card.uuid)
    assert house.opens("ben", *(node.path for node in card.nodes)) == [0, 0, errno.ENXIO]
    house.ok("release", "ben", "--all")


def test_a_process_that_only_keeps_the_node_open(house: House, card: Card) -> None:
    """Nothing on NVML's list, so no question asked; it is told by TERM, and ended."""
    pid = hold(house, card, "plain")
    house.ok("release", "ann", "--all")
    assert not alive(pid)
    assert log(house, "plain").count("term") == 1
    lent_on(house, card)


def test_a_busy_card_is_not_taken_unasked(house: House, card: Card) -> None:
    """With a job on NVML's list `release` ends with status 5 and changes nothing; with --yes the job ends."""
    job = start_job(house.lab, JobSpec(instance="ann", gpu=card.uuid))
    before = house.world()
    for words in (["--all"], ["--gpus", "1"], ["--all", "--dry-run"]):
        ran = house.run("release", "ann", *words)
        assert ran.status == 5
        assert card.uuid in ran.err + ran.out
    assert house.world() == before
    assert alive(job.pid)
    house.ok("release", "ann", "--all", "--yes")
    assert not alive(job.pid)
    given_back(house, card)


def test_term_first_and_kill_only_after_the_wait(house: House, card: Card) -> None:
    """Who ends by itself has term_wait for it; who ignores TERM is killed after it and not a moment before."""
    saver = hold(house, card, "saver", on_term="save")
    deaf = hold(house, card, "deaf", on_term="nothing")
    ends: dict[int, float] = {}

    def watch(pid: int) -> None:
        handle = os.pidfd_open(pid)
        select.select([handle], [], [], 60)
        ends[pid] = time.time()
        os.close(handle)

    watchers = [threading.Thread(target=watch, args=(pid,)) for pid in (saver, deaf)]
    for watcher in watchers:
        watcher.start()
    house.ok("release", "ann", "--all")
    for watcher in watchers:
        watcher.join()
    assert log(house, "saver").splitlines()[-1] == "saved"
    (word, told), *more = (line.split() for line in log(house, "deaf").splitlines() if line.startswith("term"))
    assert (word, more) == ("term", [])
    assert ends[deaf] - float(told) >= TERM_WAIT_S
    given_back(house, card)


def test_a_restart_loop(house: House, card: Card) -> None:
    """A job that comes back whenever it is killed finds no card to come back to."""
    job = start_job(house.lab, JobSpec(instance="ann", gpu=card.uuid, respawn=True, ignore_term=True))
    house.ok("release", "ann", "--all", "--yes")
    assert not alive(job.pid)
    assert job.supervisor is not None
    assert alive(job.supervisor), "the loop itself holds nothing, so it is nobody's business"
    lent_on(house, card)
    os.kill(job.supervisor, signal.SIGKILL)


def test_a_mapping_without_a_descriptor(mappable_lab: Lab) -> None:
    """A mapping whose descriptor was closed is found and its process ended."""
    for house in house_for(mappable_lab):
        card = mappable_lab.gpus[-1]
        house.ok("create", "mia", "--gpu", card.uuid)
        job = start_job(mappable_lab, JobSpec(instance="mia", gpu=card.uuid, hold="map", ignore_term=True))
        house.ok("release", "mia", "--all", "--yes")
        assert not alive(job.pid)
        assert house.slots()[card.uuid] == (None, "free")
        house.settled()


def test_parked_and_passed_descriptors_are_quarantined(house: House, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A descriptor parked in a socket, or sent to another container: status 9, and the card goes to nobody.

    Also when the other container leaves it in its socket. `gpu open` looks again: refused while it is held, and it
    clears the quarantine once nobody holds it.
    """
    folder = tmp_path_factory.mktemp("door")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o777)
    house.ok("attach", "ann", "--gpus", "3")
    cards = house.cards_of("ann")
    for name in ("ann", "ben"):
        house.lxc("config", "device", "add", name, "door", "disk", f"source={folder}", "path=/mnt/door")
    for way in ("take", "leave"):
        program(house, "ben", TAKE, f"/mnt/door/{way}", way, unit=way)
    assert until(lambda: all((folder / way).exists() for way in ("take", "leave")))
    for card, park in zip(cards, ("self", "/mnt/door/take", "/mnt/door/leave"), strict=True):
        hold(house, card, f"parks{card.index}", park=park)
    assert until(lambda: house.sh("ben", "cat /root/take.log", check=False) == "holds\nholds")
    house.sh("ann", f"systemctl kill --signal=KILL parks{cards[1].index} parks{cards[2].index}")
    assert house.refused(9, "release", "ann", "--all").error == "quarantined"
    states = {uuid: state for uuid, (_, state) in house.slots().items()}
    assert states == {card.uuid: "quarantined" if card in cards else "free" for card in house.lab.gpus}
    house.refused(7, "attach", "ben", "--gpus", "2")
    for card in (cards[0], cards[2]):
        assert house.refused(9, "gpu", "open", card.uuid).error == "quarantined"
    house.sh("ann", f"systemctl kill --signal=KILL parks{cards[0].index}")
    house.sh("ben", "systemctl kill --signal=KILL take leave")
    for name in ("ann", "ben"):
        house.lxc("config", "device", "remove", name, "door")
    for card in cards:
        house.ok("gpu", "open", card.uuid)
    lent_on(house, cards[2])


def test_a_frozen_container(house: House, card: Card) -> None:
    """`lxc pause` keeps no card: it is taken, its holder is dead when the container thaws."""
    pid = hold(house, card, "frozen", on_term="nothing")
    house.lxc("pause", "ann")
    try:
        house.ok("release", "ann", "--all")
        assert not alive(pid)
        assert house.instances()["ann"]["status"] == "Frozen"
    finally:
        house.lxc("start", "ann")
    given_back(house, card)


def test_no_process_left_to_start(house: House, card: Card) -> None:
    """With limits.processes exhausted nothing can be started inside, and the card is taken all the same."""
    pid = hold(house, card, "last", on_term="nothing")
    program(house, "ann", BOMB, unit="bomb")
    assert until(lambda: house.lxc("exec", "ann", "-T", "--", "echo", "ok", check=False) == "")
    house.ok("release", "ann", "--all")
    assert not alive(pid)
    assert house.slots()[card.uuid] == (None, "free")
    house.lxc("stop", "--force", "ann")
    house.ok("start", "ann")
    given_back(house, card)


def test_full_disks(house: House, card: Card) -> None:
    """A full root disk and a full home keep nobody's card; it can be lent to the same container again, too."""
    pid = hold(house, card, "hoard", on_term="nothing")
    house.sh("ann", f"cat >/dev/shm/fill.py <<'X'\n{FILL}X")
    full = house.sh("ann", "python3 /dev/shm/fill.py / /home/ann").split()
    assert [int(word) for word in full] == [errno.EDQUOT] * 2
    try:
        house.ok("release", "ann", "--all")
        assert not alive(pid)
        assert house.slots()[card.uuid] == (None, "free")
        assert house.opens("ann", *(node.path for node in card.nodes)) == [errno.ENOENT] * 3
    finally:
        house.sh("ann", "rm -f /fill* /home/ann/fill*")
    given_back(house, card)


def test_a_reboot_in_the_middle(house: House, card: Card) -> None:
    """A holder that answers TERM by rebooting the container, where a service opens the card at boot, keeps nothing."""
    place = "/etc/systemd/system/again.service"
    house.sh("ann", f"cat >{place} <<'X'\n{AGAIN.replace('NODE', card.drm_render)}X\nsystemctl enable --quiet again")
    hold(house, card, "phoenix", on_term="reboot")
    before = house.init("ann")
    ran = house.run("release", "ann", "--all")
    assert until(lambda: house.init("ann") not in {before, 0, -1}), "it never came up again"
    if ran.status != 0:
        house.ok("gpu", "open", card.uuid)  # any next command goes on with it
    house.sh("ann", f"systemctl disable --quiet --now again; rm {place}")
    given_back(house, card)


def test_a_container_that_will_not_stop(house: House, card: Card) -> None:
    """One that answers the order to halt by booting again is deleted all the same, and its card is free."""
    hold(house, card, "stayer", on_term="save")
    target = "/etc/systemd/system/halt.target"
    house.sh("ann", f"ln -sf /lib/systemd/system/reboot.target {target}; systemctl daemon-reload")
    house.ok("delete", "ann", "--purge", "--yes")
    given_back(house, card)
