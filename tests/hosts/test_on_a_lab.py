"""users.yml and upgrade.yml, the driver aside, on a lab with cards: there containers start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playbooks import Played, play, write_inventory

from lxgpu.lab import Lab

KEYS = [
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 42}{end} {text}"
    for end, text in (("A", 'bob, "the second"'), ("Q", "b"))
]
PEOPLE = [{"name": "grace", "gpus": 1}, {"name": "bob", "keys": KEYS}]


class Desk:
    """The lab as a host of Ansible's, by a connection that is none; lxgpu and Ansible get the lab's environment."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.note = folder / "drained.json"
        program = folder / "lxgpu"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lxgpu "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self._env = {**lab.env(), "PYTHONPATH": os.pathsep.join(sys.path)}
        values = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "lxgpu_command": str(program),
            "users_lxgpu": str(program),
            "lxgpu_drain_note": str(self.note),
            "lxgpu_verify_cards": len(lab.gpus),
            "lxgpu_verify_accept": ["capability", "private-keys", *_parameters()],
            "users_list": PEOPLE,
        }
        self._hosts = write_inventory(folder / "hosts.yml", "lab", values)

    def play(self, playbook: str, *words: str) -> Played:
        """Run a playbook, the driver aside."""
        return play(playbook, self._hosts, "--skip-tags", "nvidia_driver", *words, env=self._env)

    def lxgpu(self, *words: str) -> list[dict[str, object]]:
        """The items that lxgpu tells."""
        argv = [sys.executable, "-m", "lxgpu", *words, "-o", "json"]
        env = {**os.environ, **self._env}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
        return list(json.loads(done.stdout)["items"]) if done.stdout.startswith("{") else []

    def daemon(self) -> subprocess.Popen[bytes]:
        """The daemon, begun and running."""
        started = subprocess.Popen(
            [sys.executable, "-m", "lxgpu", "daemon", "run"],
            env={**os.environ, **self._env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not self.lxgpu("daemon", "status")[0]["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        return started

    def states(self) -> tuple[set[object], bool]:
        """How the cards are, and whether the daemon is paused."""
        health = {row["health"] for row in self.lxgpu("gpus")}
        return health, self.lxgpu("daemon", "status")[0]["paused"] is not None


def _parameters() -> list[str]:
    from lxgpu.services.checks_host import SYSCTLS  # noqa: PLC0415 -- the machine's, not the lab's

    return list(SYSCTLS)


@pytest.fixture(scope="module")
def desk(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The lab with its daemon; the people's containers go afterwards."""
    found = Desk(lab, tmp_path_factory.mktemp("desk"))
    daemon = found.daemon()
    yield found
    for person in PEOPLE:
        found.lxgpu("delete", str(person["name"]), "--purge", "--yes")
    daemon.terminate()
    assert daemon.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def settled(desk: Desk) -> tuple[Played, Played, list[dict[str, object]]]:
    """A rehearsal of users.yml, the run, and who was there between them."""
    rehearsal = desk.play("users.yml", "--check")
    between = desk.lxgpu("ls")
    return rehearsal, desk.play("users.yml"), between


def test_people_get_their_containers_once(desk, settled):
    """A rehearsal makes nobody; a run makes each with cards and keys; a second one changes nothing."""
    rehearsal, first, between = settled
    assert (rehearsal.failed, rehearsal.changed, between) == (False, 1, []), rehearsal.output
    assert (first.failed, first.changed) == (False, 1), first.output
    assert {(row["name"], len(row["gpus"])) for row in desk.lxgpu("ls")} == {("grace", 1), ("bob", 0)}
    assert {row["comment"] for row in desk.lxgpu("keys", "ls", "bob")} == {'bob, "the second"', "b"}
    second = desk.play("users.yml")
    assert (second.failed, second.changed) == (False, 0), second.output


def test_an_upgrade_waits_for_holders_and_stops_before_it_does_harm(desk, settled):
    """Who holds a card keeps it, nobody is given another, and `--tags open` undoes it all."""
    assert settled
    played = desk.play("upgrade.yml")
    assert played.failed
    assert "cards are still held by grace" in " ".join(played.output.split())
    assert desk.states() == ({"closed"}, True)
    opened = desk.play("upgrade.yml", "--tags", "open")
    assert not opened.failed, opened.output
    assert desk.states() == ({"ok"}, False)
    assert {(row["name"], len(row["gpus"])) for row in desk.lxgpu("ls")} == {("grace", 1), ("bob", 0)}


def test_a_rehearsal_of_an_upgrade_closes_nothing(desk, settled):
    """--check says what would be, and leaves cards and daemon alone."""
    assert settled
    before = desk.states()
    played = desk.play("upgrade.yml", "--check")
    assert not played.failed, played.output
    assert desk.states() == before
    assert not desk.note.exists()


def test_an_upgrade_empties_the_server_and_opens_it_again(desk, settled, lab):
    """With leave to take cards back it goes through; a card that was closed before for another reason stays closed."""
    assert settled
    mine = next(row for row in desk.lxgpu("gpus") if row["slots"][0]["holder"] is None)["uuid"]
    desk.lxgpu("gpu", "close", str(mine), "--reason", "a broken fan")
    played = desk.play("upgrade.yml", "-e", "lxgpu_drain_release=true", "-e", "lxgpu_drain_wait=60")
    assert not played.failed, played.output
    assert {row["uuid"]: row["health"] for row in desk.lxgpu("gpus")} == {
        card.uuid: "closed" if card.uuid == mine else "ok" for card in lab.gpus
    }
    assert not desk.states()[1]
    assert all(row["gpus"] == [] for row in desk.lxgpu("ls"))
    assert not desk.note.exists()
    desk.lxgpu("gpu", "open", str(mine))
