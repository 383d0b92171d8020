"""The daemon on a real LXD: what commands left it finishes, what fails around it it outlives, and it ends in time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import PROGRAM, House, house_for, until

from lxgpu.lab import Lab, LabSpec, up
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab


class Running:
    """A daemon of the lab, its log in a file."""

    def __init__(self, house: House, log: Path, **environment: str) -> None:
        self.house, self.path = house, log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*PROGRAM, "daemon", "run"],
                env={**house.env, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        assert until(lambda: "is at work" in self.log()), self.log()

    def log(self) -> str:
        """What it said so far."""
        return self.path.read_text()

    def status(self) -> dict[str, Any]:
        """What `lxgpu daemon status` says."""
        found: dict[str, Any] = json.loads(self.house.run("daemon", "status", "-o", "json").out)["items"][0]
        return found

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, float]:
        """SIGTERM; the exit status, and how long it took."""
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout=30), time.monotonic() - began

    def kill(self) -> None:
        """Kill -9, also a stopped one."""
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait(timeout=10)


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann and ben have containers, and no card."""
    for house in house_for(lab):
        house.ok("create", "ann")
        house.ok("create", "ben")
        yield house


@pytest.fixture
def daemon(house: House, tmp_path: Path) -> Iterator[Running]:
    """A daemon; afterwards nobody holds a card, and no daemon runs."""
    running = Running(house, tmp_path / "daemon.log")
    yield running
    running.kill()
    (house.lab.paths.run / "paused").unlink(missing_ok=True)
    for name in ("ann", "ben"):
        if house.held(name):
            house.run("release", name, "--all", "--yes")
    for row in house.records().reservations:
        house.run("reservation", "cancel", row.id, "--yes")


def live(house: House) -> list[str]:
    """The changes under way."""
    return [row.kind for row in house.records().operations if row.live]


def events(house: House, kind: str) -> list[dict[str, Any]]:
    """The history of one kind."""
    return [row for row in house.run("history", "-o", "json").items if row["kind"] == kind]


def test_there_is_one_and_it_says_how_it_goes(house: House, daemon: Running) -> None:
    """Status 0 with pid and last tick; a second one is refused with status 6; ended, status 8."""
    assert until(lambda: daemon.status()["ticked_at"] is not None)
    found = daemon.status()
    assert (found["running"], found["pid"], found["troubles"]) == (True, daemon.process.pid, [])
    second = house.refused(6, "daemon", "run")
    assert second.error == "daemon_runs"
    assert str(daemon.process.pid) in second.err
    status, took_s = daemon.end()
    assert status == 0
    assert took_s < 10
    assert house.run("daemon", "status").status == 8
    published = json.loads((house.lab.paths.state / "status.json").read_text())
    assert published["daemon"]["running"] is False


def test_systemd_hears_that_it_is_ready_lives_and_ends(house: House, tmp_path: Path) -> None:
    """READY once it may be relied on, a sign of life with a line for people at each turn, STOPPING at the end."""
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        daemon = Running(house, tmp_path / "told.log", NOTIFY_SOCKET=str(tmp_path / "notify"))
        try:
            while not any("all is well" in text for text in heard):
                heard.append(manager.recv(4096).decode())
            assert daemon.end()[0] == 0
            while heard[-1] != "STOPPING=1":
                heard.append(manager.recv(4096).decode())
        finally:
            daemon.kill()
    assert heard[0].startswith("READY=1\n")
    assert sum("READY=1" in text for text in heard) == 1
    assert any(text.startswith("WATCHDOG=1\nSTATUS=all is well") for text in heard)


def test_what_a_killed_command_left_is_finished_without_another_command(house: House, daemon: Running) -> None:
    """A release killed in its grace for TERM: the card is free some seconds later."""
    house.ok("attach", "ann", "--gpus", "1")
    start_job(house.lab, JobSpec(instance="ann", ignore_term=True))
    process = house.start("release", "ann", "--all", "--yes")
    assert until(lambda: "release" in live(house)), "it was over before it was killed"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert until(lambda: not live(house) and not house.held("ann"), limit_s=40), daemon.log()
    house.settled()


def test_killed_in_the_midst_and_started_again(house: House, daemon: Running, tmp_path: Path) -> None:
    """Kill -9 while it takes ben's way free: the next daemon goes on, and nobody holds a card twice."""
    house.ok("attach", "ann", "--gpus", "4", "--class", "scavenge")
    start_job(house.lab, JobSpec(instance="ann", ignore_term=True))
    house.ok("reserve", "ben", "--gpus", "2", "--for", "10m", "--yes")
    for moment in (2.2, 0.7):
        time.sleep(moment)
        daemon.kill()
        assert house.run("daemon", "status").status == 8
        daemon = Running(house, tmp_path / f"again-{moment}.log")
    try:
        assert until(lambda: len(house.cards_of("ben")) == 2, limit_s=40), daemon.log()
        assert until(lambda: not live(house), limit_s=20), daemon.log()
        house.settled()
    finally:
        daemon.kill()


def test_lxd_killed_and_started_again(house: House, daemon: Running) -> None:
    """Its absence is said once, its return as well; the daemon lives on, and readers know all the while."""
    os.kill(house.daemon(), signal.SIGKILL)
    assert until(lambda: daemon.status()["troubles"] != [], limit_s=30), daemon.log()
    rows = {
        row["name"]: row["state"]
        for row in json.loads((house.lab.paths.state / "status.json").read_text())["instances"]
    }
    assert set(rows) == {"ann", "ben"}
    time.sleep(4)
    assert daemon.log().count("LXD cannot be reached") == 1, daemon.log()
    up(LabSpec(name=house.lab.name))
    assert until(lambda: "tick: well again" in daemon.log(), limit_s=60), daemon.log()
    assert until(lambda: daemon.status()["troubles"] == [], limit_s=35)
    assert daemon.process.poll() is None


def test_a_broken_policy_is_refused_and_a_mended_one_taken(house: House, daemon: Running) -> None:
    """The last good one holds meanwhile; both are lines of history, once each."""
    path, good = house.lab.paths.policy, house.lab.paths.policy.read_text()
    try:
        path.write_text(good.replace("limit: 4", "limit: four"))
        assert until(lambda: events(house, "policy_refused"), limit_s=20), daemon.log()
        assert until(lambda: not daemon.status()["policy"]["ok"])
        house.ok("attach", "ann", "--gpus", "1")
        path.write_text(good.replace("limit: 4", "limit: 3"))
        assert until(lambda: events(house, "policy_changed"), limit_s=20), daemon.log()
        (changed,) = events(house, "policy_changed")
        assert changed["detail"]["changes"] == {"defaults.limit": [4, 3]}
        assert changed["actor"] == "daemon"
        assert until(lambda: daemon.status()["policy"]["ok"])
        assert len(events(house, "policy_refused")) == 1
    finally:
        path.write_text(good)
        daemon.signal(signal.SIGHUP)
    assert until(lambda: len(events(house, "policy_changed")) == 2, limit_s=20), daemon.log()


def test_paused_it_takes_nothing_and_goes_on_afterwards(house: House, daemon: Running) -> None:
    """Ben's reservation waits while paused; everybody reads by whom and why; then he gets his card."""
    house.ok("attach", "ann", "--gpus", "4", "--class", "scavenge")
    house.ok("daemon", "pause", "--reason", "a driver update")
    house.ok("reserve", "ben", "--gpus", "1", "--for", "10m", "--yes")
    time.sleep(6)
    assert len(house.cards_of("ann")) == 4
    assert daemon.status()["paused"]["why"] == "a driver update"
    house.ok("daemon", "resume")
    assert until(lambda: len(house.cards_of("ben")) == 1, limit_s=40), daemon.log()
    assert {event["kind"] for event in house.run("history", "-o", "json").items} >= {"paused", "resumed"}


def test_a_poke_is_answered_at_once(house: House, daemon: Running) -> None:
    """What ends a pause is not waited for: it is said within a second."""
    house.ok("daemon", "pause", "--reason", "to see")
    assert until(lambda: "paused by" in daemon.log(), limit_s=3)
    house.ok("daemon", "resume")
    assert until(lambda: "goes on" in daemon.log(), limit_s=3)


def test_it_ends_in_time_while_a_card_is_taken(house: House, daemon: Running) -> None:
    """SIGTERM while a job that ignores TERM is being ended: out in ten seconds, status 0; the next tick finishes."""
    house.ok("attach", "ann", "--gpus", "4", "--class", "scavenge")
    start_job(house.lab, JobSpec(instance="ann", ignore_term=True))
    house.ok("reserve", "ben", "--gpus", "4", "--for", "10m", "--yes")
    assert until(lambda: "release" in live(house), limit_s=15), daemon.log()
    status, took_s = daemon.end()
    assert status == 0, daemon.log()
    assert took_s < 10
    assert until(lambda: house.ok("daemon", "run", "--once") and len(house.cards_of("ben")) == 4, limit_s=60)
    house.settled()


def test_an_old_daemon_that_wakes_after_a_take_over_ends_itself(house: House, daemon: Running, tmp_path: Path) -> None:
    """Stopped, another inventory rebuilt from LXD takes over; woken, it writes nothing and ends with status 6."""
    house.ok("attach", "ann", "--gpus", "1")
    assert until(lambda: daemon.status()["ticked_at"] is not None)
    daemon.signal(signal.SIGSTOP)
    state = house.lab.paths.state
    other = tmp_path / "other-state"
    taken = subprocess.run(
        [*PROGRAM, "--state-dir", str(other), "inventory", "rebuild", "--yes"],
        env=house.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert taken.returncode == 0, taken.stderr
    before = house.instances()
    daemon.signal(signal.SIGCONT)
    assert daemon.process.wait(timeout=30) == 6, daemon.log()
    assert "error[superseded]" in daemon.log()
    assert house.instances() == before
    for path in state.glob("inventory.db*"):  # the house goes on with the one that took over
        path.unlink()
    for path in other.glob("inventory.db*"):
        shutil.copy(path, state / path.name)
    house.settled()
