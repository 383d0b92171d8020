"""What `reserve` promises, on real containers and processes: warned, only the GPU's work ends, proven, given back."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from house import House, house_for, until

from lxgpu.lab import Lab
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab

GRACE_S = TERM_WAIT_S = 2.0
"""The lab policy's."""
SLACK_S = 5.0


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Alice and bob have containers without cards."""
    for house in house_for(lab):
        house.ok("create", "alice")
        house.ok("create", "bob")
        yield house


@pytest.fixture(autouse=True)
def _clear(house: House) -> Iterator[None]:
    """Each test begins without cards, reservations and warnings."""
    yield
    for row in house.records().instances:
        if row.name not in {"alice", "bob"}:
            house.run("delete", row.name, "--purge", "--yes")
    for row in house.records().reservations:
        house.run("reservation", "cancel", row.id, "--yes")
    for name in ("alice", "bob"):
        house.run("start", name)
        house.run("release", name, "--all", "--yes")
    assert until(lambda: tick(house) and not house.records().assignments, limit_s=60), house.records().assignments


def tick(house: House) -> bool:
    """One pass, as the daemon does it."""
    house.ok("daemon", "run", "--once")
    return True


@contextmanager
def daemon(house: House) -> Iterator[subprocess.Popen[str]]:
    """The daemon of the lab, ended by its own signal."""
    process = house.start("daemon", "run")
    try:
        assert until(lambda: house.run("daemon", "status").status == 0)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.communicate(timeout=30)


def lend(house: House, name: str, count: int, *, class_name: str = "scavenge") -> None:
    """Cards for a container, in a class that yields."""
    house.ok("attach", name, "--gpus", str(count), "--class", class_name)


def fill(house: House, name: str = "alice") -> list[str]:
    """All four cards for one; their UUIDs."""
    lend(house, name, 4)
    return sorted(row.slot.gpu for row in house.records().held_by(name))


def busy_neighbour(house: House, name: str, count: int) -> None:
    """Somebody who computes on all of their cards in a class that yields to nobody."""
    house.ok("create", name, "--gpus", str(count), "--class", "urgent")
    for uuid in held(house, name):
        start_job(house.lab, JobSpec(instance=name, gpu=uuid))


def states(house: House) -> list[str]:
    """The states of all that is held or promised."""
    return [row.state.value for row in house.records().assignments]


def held(house: House, name: str) -> list[str]:
    """The cards that a container has and may use."""
    rows = house.records().held_by(name)
    return sorted(row.slot.gpu for row in rows if row.state.value in {"active", "warned"})


def events(house: House, kind: str) -> list[dict[str, Any]]:
    """The history of one kind, newest first."""
    return [row for row in house.ok("history", "-o", "json").items if row["kind"] == kind]


def runs(pid: int) -> bool:
    """Whether a process of the host is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_whole_story(house: House) -> None:
    """(a) Warned where she is; only what uses the cards ends; bob in time; the same cards back; her hook ran."""
    busy_neighbour(house, "carol", 2)
    lend(house, "alice", 2)
    mine = held(house, "alice")
    hook = "printf '#!/bin/sh\\ndate >>/home/alice/hook\\n' >/etc/lxgpu/hooks/after-attach"
    house.sh("alice", f"mkdir -p /etc/lxgpu/hooks; {hook}; chmod 755 /etc/lxgpu/hooks/after-attach")
    house.sh("alice", "systemd-run --quiet --unit=cpujob sleep 86400")
    house.ssh("alice", "tmux new-session -d -s work sleep 86401")
    keepers = house.sh("alice", "pgrep -x 'sshd|sleep|tmux: server'")
    alive = {pid: house.sh("alice", f"cut -d' ' -f22 /proc/{pid}/stat") for pid in keepers.split()}
    assert len(alive) >= 4
    jobs = [start_job(house.lab, JobSpec(instance="alice", gpu=uuid)) for uuid in mine]
    with daemon(house):
        asked = time.monotonic()
        booked = json.loads(house.ok("reserve", "bob", "--gpus", "2", "--for", "25s", "-o", "json").out)["items"][0]
        assert until(lambda: len(held(house, "bob")) == 2, limit_s=GRACE_S + TERM_WAIT_S + SLACK_S + 5)
        took = time.monotonic() - asked
        assert held(house, "bob") == mine
        assert not [job for job in jobs if runs(job.pid)]
        for pid, start in alive.items():
            assert house.sh("alice", f"cut -d' ' -f22 /proc/{pid}/stat") == start
        notice = house.sh("alice", "cat /var/lib/lxgpu/notice")
        assert "bob" in notice
        why = house.ok("why", "alice").out
        assert booked["id"] in why
        assert until(lambda: held(house, "alice") == mine, limit_s=25 + 60)
        assert until(lambda: house.sh("alice", "cat /home/alice/hook 2>/dev/null", check=False) != "")
    assert took <= GRACE_S + TERM_WAIT_S + SLACK_S, took


def test_a_job_that_ignores_term_is_killed_after_term_wait_and_never_before(house: House) -> None:
    """(b) KILL comes only when the time for TERM is over."""
    fill(house)
    job = start_job(house.lab, JobSpec(instance="alice", ignore_term=True))
    house.ok("reserve", "bob", "--gpus", "4", "--for", "1h")
    begun = None
    while runs(job.pid):
        tick(house)
        if begun is None and "releasing" in states(house):
            begun = time.monotonic()
    assert begun is not None
    assert time.monotonic() - begun >= TERM_WAIT_S - 1.5  # the release began at most one look before
    assert until(lambda: tick(house) and len(held(house, "bob")) == 4, limit_s=30)


@pytest.mark.parametrize("how", [{"respawn": True}, {"hold": "fd-passed"}], ids=["respawn", "parked"])
def test_what_hides_or_comes_again_is_ended(house: House, how: dict[str, Any]) -> None:
    """(c) A holder that NVML may not show, and a restart loop."""
    fill(house)
    start_job(house.lab, JobSpec(instance="alice", **how))
    house.ok("reserve", "bob", "--gpus", "4", "--for", "1h")
    assert until(lambda: tick(house) and len(held(house, "bob")) == 4, limit_s=60)


def test_a_full_disk_and_a_frozen_container_keep_nothing(house: House) -> None:
    """(e), (f) The holder's disk is full and all its processes are frozen: the cards go all the same."""
    fill(house)
    start_job(house.lab, JobSpec(instance="alice"))
    house.lxc("pause", "alice")
    house.ok("reserve", "bob", "--gpus", "4", "--for", "1h")
    assert until(lambda: tick(house) and len(held(house, "bob")) == 4, limit_s=60)
    house.lxc("start", "alice", check=False)


def test_two_at_once_for_the_last_card(house: House) -> None:
    """(j) One wins, the other waits and is told; nobody holds it twice."""
    busy_neighbour(house, "dora", 3)
    runs = [house.start("reserve", name, "--gpus", "1", "--for", "1h", "-o", "json") for name in ("alice", "bob")]
    outs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    states = {json.loads(out)["items"][0]["instance"]: json.loads(out)["items"][0]["state"] for out in outs}
    assert until(lambda: tick(house) and sorted(len(held(house, name)) for name in states) == [0, 1], limit_s=30)
    assert sorted(row.state.value for row in house.records().reservations) == ["active", "waiting"]


def test_what_cannot_be_met_takes_nothing(house: House) -> None:
    """(k) More cards than can be had: it waits, and nobody is warned."""
    busy_neighbour(house, "dora", 2)
    lend(house, "alice", 2)
    ran = json.loads(house.ok("reserve", "bob", "--gpus", "4", "--for", "1h", "-o", "json").out)["items"][0]
    assert ran["state"] == "waiting"
    for _ in range(3):
        tick(house)
    assert len(held(house, "alice")) == 2
    assert not [row for row in house.records().assignments if row.state.value == "warned"]


def test_lxgpu_killed_at_any_moment_ends_where_it_would_have(house: House) -> None:
    """(h) Killed with -9 again and again while cards change hands: nobody twice, nobody forgotten."""
    fill(house)
    start_job(house.lab, JobSpec(instance="alice"))
    reserve = house.start("reserve", "bob", "--gpus", "4", "--for", "1h")
    reserve.communicate(timeout=60)
    for wait_s in (0.2, 0.5, 0.9, 1.3, 0.3, 0.7, 1.1):
        run = house.start("daemon", "run")
        time.sleep(wait_s)
        run.kill()
        run.communicate()
    assert until(lambda: tick(house) and len(held(house, "bob")) == 4, limit_s=60)
    assert held(house, "alice") == []
    house.settled()


def test_a_silent_nvml_takes_nothing_for_idle(house: House) -> None:
    """(i) NVML that hangs or dies makes nobody idle."""
    fill(house, "alice")
    for card in house.lab.gpus:
        house.ok("lab", "fault", card.uuid, "unknown")
    try:
        house.ok("reserve", "bob", "--gpus", "1", "--for", "1h", "--class", "scavenge")
        for _ in range(12):
            time.sleep(1)
            tick(house)
        assert len(held(house, "alice")) == 4
    finally:
        for card in house.lab.gpus:
            house.ok("lab", "fault", card.uuid, "clear")


def test_a_card_that_cannot_be_proven_goes_to_quarantine_and_another_is_found(house: House) -> None:
    """(d) The fence fails for one card: nobody gets it, and bob gets another, which is warned for anew."""
    busy_neighbour(house, "carol", 2)
    lend(house, "alice", 2)
    for uuid in held(house, "alice"):
        start_job(house.lab, JobSpec(instance="alice", gpu=uuid, ignore_term=True))
    house.ok("reserve", "bob", "--gpus", "1", "--for", "1h")
    first = next(row.slot.gpu for row in house.records().assignments if row.state.value == "warned")
    assert until(lambda: tick(house) and "releasing" in states(house), limit_s=30)
    house.ok("lab", "fault", first, "unknown")
    try:
        assert until(lambda: tick(house) and held(house, "bob"), limit_s=120)
        assert first not in held(house, "bob")
        quarantined = [row.slot.gpu for row in house.records().assignments if row.state.value == "quarantined"]
        assert quarantined == [first]
    finally:
        house.ok("lab", "fault", first, "clear")
    house.ok("gpu", "open", first)


def test_a_booking_ahead_begins_on_time(house: House) -> None:
    """Its holders are warned early enough that the cards are there at the minute, and one look later at most."""
    lend(house, "alice", 4)
    start_job(house.lab, JobSpec(instance="alice"))
    with daemon(house):
        at = datetime.now(UTC) + timedelta(seconds=40)
        house.ok("reserve", "bob", "--gpus", "2", "--for", "1h", "--at", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        assert until(lambda: len(held(house, "bob")) == 2, limit_s=60)
        assert until(lambda: "active" in [row.state.value for row in house.records().reservations])
        begun = datetime.fromisoformat(events(house, "started")[0]["at"])
        assert timedelta(seconds=-1) <= begun - at <= timedelta(seconds=3), (begun, at)


def test_the_plan_is_what_happens(house: House) -> None:
    """Step by step, `--dry-run` and the history say the same."""
    lend(house, "alice", 4)
    plan = house.ok("reserve", "bob", "--gpus", "2", "--for", "5s", "--dry-run", "-o", "json").items[0]
    assert plan["decision"] == "granted_after_preemption"
    house.ok("reserve", "bob", "--gpus", "2", "--for", "5s")
    assert until(lambda: tick(house) and not house.records().reservations, limit_s=60)
    assert len(held(house, "alice")) == 4
    did = {"warn": "warned", "release": "released", "attach": "attached", "start": "started", "finish": "finished"}
    did["return"] = "returned"
    reserved = events(house, "reserved")[0]["at"]
    happened = [row for row in reversed(house.ok("history", "-o", "json").items) if row["at"] >= reserved]
    place = 0
    for step in plan["steps"]:
        found = [
            number
            for number, row in enumerate(happened)
            if row["kind"] == did[step["do"]]
            and row["subject"] == step["instance"]
            and (step["gpu"] is None or step["gpu"] in {row["detail"].get("gpu"), *row["detail"].get("gpus", [])})
        ]
        assert found, (step, [(row["kind"], row["subject"]) for row in happened])
        assert step["do"] in {"warn", "release", "attach"} or found[0] >= place
        place = max(place, found[0])
