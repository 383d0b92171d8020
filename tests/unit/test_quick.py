"""The short way of `lxgpu ls` writes what the long way writes, or steps aside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from inventory_rows import T0, assignment, at, card, instance, person
from reservation_rows import booking, claim

from lxgpu import quick
from lxgpu.config.kept import keep
from lxgpu.drivers.engine import LxdEngine
from lxgpu.inventory.migrations import known
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import InstanceState, Limits
from lxgpu.model.reservation import ReservationState
from lxgpu.plain import plain
from lxgpu.services.listing import instance_items

LISTEN = "10.0.0.1"


def lxd_row(name, uuid, *, status="Running", mark=None, project="default", kind="container", devices=None):
    """An instance as LXD's list has it."""
    config = {"volatile.uuid": uuid, "user.lxgpu.uuid": uuid if mark is None else mark}
    return {
        "name": name,
        "status": status,
        "project": project,
        "type": kind,
        "config": config,
        "devices": devices or {},
        "expanded_devices": devices or {},
        "profiles": [],
        "created_at": "2026-11-30T08:00:00Z",
        "location": "none",
    }


ROWS = [
    lxd_row("alice", "u1", devices={"gpu-2": {"type": "gpu", "pci": "0000:03:00.0"}}),
    lxd_row("bob", "u2", status="Stopped"),
    lxd_row("dave", "u4", status="Freezing"),
    lxd_row("web", "u9", mark=""),
    lxd_row("carol", "u8", mark="", project="other"),
    lxd_row("lxgpu-template-1", "u7", mark=""),
    lxd_row("machine", "u6", mark="", kind="virtual-machine"),
]


@contextmanager
def lxd(folder, rows, *, status="200 OK", asked=None):
    """A server on a socket that answers every request with these instances."""
    path = str(folder / "unix.socket")
    body = json.dumps({"metadata": rows}).encode()
    answer = f"HTTP/1.0 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def serve():
            while True:
                try:
                    wire, _ = server.accept()
                except OSError:
                    return
                with wire:
                    request = wire.recv(65536)
                    if asked is not None:
                        asked.append(request.split(b" ")[1].decode())
                    wire.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def state(tmp_path):
    """A state folder with an inventory of four people."""
    folder = tmp_path / "state"
    names = ("alice", "bob", "carol", "dave")
    with open_inventory(folder / "inventory.db") as made, made.write(actor="root", now=T0) as tx:
        tx.put(*(person(name, uid=10 + at_, ssh_port=22000 + at_) for at_, name in enumerate(names)))
        limits = Limits(cpu=2, memory_bytes=2**31, disk_bytes=None, processes=100)
        tx.put(
            instance(uuid="u1", limits=limits, class_name="normal", expires=at(9000), address="10.0.0.2"),
            instance("bob", uuid="u2"),
            instance("carol", uuid="u3", state=InstanceState.SUSPENDED),
            instance("dave", uuid="u4"),
            instance("trash-x", owner="bob", uuid="u5", state=InstanceState.TRASHED),
            assignment("a1", "GPU-1", until=at(60), reservation="r1"),
            assignment("a2", "GPU-2", since=at(-1)),
            assignment("a3", "GPU-3", "1/2", instance="bob", state=AssignmentState.RELEASING),
            assignment("a4", "GPU-4", state=AssignmentState.CLOSED, closed_at=at(1)),
            assignment("a5", "GPU-5", state=AssignmentState.PLANNED, since=None),
            card("GPU-1"),
            claim(),
            claim("c2", created_at=at(50), dies=None),
            claim("c3", "bob", state=ReservationState.FINISHED, closed_at=at(70)),
            booking(),
        )
    return folder


@pytest.fixture
def environ(state):
    """The variables that point at it."""
    return {"LXGPU_STATE_DIR": str(state), "PATH": "/bin"}


def remember(state, environ, where, **changes):
    """What the long way leaves behind."""
    config = state.parent / "config.yaml"
    if not config.exists():
        config.write_text("pool: default\n")
        os.utime(config, (time.time() - 60,) * 2)
    usual = {"socket": where, "project": "default", "address": "", "listen": LISTEN, "schema": len(known())}
    usual |= {"policy": f"{state}/policy.yaml", "pause": f"{state}/paused"}
    quick.remember(state_dir=str(state), config=str(config), environ=environ, **{**usual, **changes})
    return config


def long_way(state, where):
    """The items as `ls` makes them of the inventory proper and the driver proper."""
    with open_inventory(state / "inventory.db") as opened:
        found = opened.read()
    return instance_items(found, LxdEngine(where).instances(with_state=False), LISTEN)


def test_both_ways_list_the_same(state, environ, tmp_path):
    """Whatever there is: states, cards known and unknown, limits, times; in one request."""
    asked = []
    with lxd(tmp_path, ROWS, asked=asked) as where:
        remember(state, environ, where)
        short = quick.containers(environ)
        assert len(asked) == 1
        expected = long_way(state, where)
    assert plain(short) == plain(expected)
    assert [list(item) for item in short] == [list(item) for item in expected]
    assert [(item["name"], item["state"]) for item in short] == [
        ("alice", "running"),
        ("bob", "stopped"),
        ("carol", "missing"),
        ("dave", None),
    ]


def test_what_is_owed_is_listed(state, environ, tmp_path):
    """Open claims, oldest first; a booking is none, and one that was met is none any more."""
    with lxd(tmp_path, ROWS) as where:
        remember(state, environ, where)
        found = {item["name"]: item["claims"] for item in quick.containers(environ)}
    owed = {"gpus": 1, "model": "NVIDIA A100"}
    first = {**owed, "since": at(50), "dies": None}
    assert found["alice"] == [first, {**owed, "since": at(60), "dies": at(6000)}]
    assert found["bob"] == []


def test_while_somebody_writes_both_list_the_same(state, environ, tmp_path):
    """With a write-ahead log in use nothing that was committed is missed."""
    with lxd(tmp_path, ROWS) as where, open_inventory(state / "inventory.db") as writer:
        remember(state, environ, where)
        with writer.write(actor="root", now=T0) as tx:
            tx.put(instance("dave", uuid="u4", state=InstanceState.SUSPENDED))
        assert (state / "inventory.db-wal").stat().st_size > 0
        short = quick.containers(environ)
        assert plain(short) == plain(long_way(state, where))
        assert short[-1]["state"] == "suspended"


@dataclass(frozen=True, slots=True)
class World:
    """Where everything is when the short way has just answered."""

    state: Path
    environ: dict[str, str]
    where: str
    config: Path


def nothing_remembered(world):
    """Nobody went the long way yet."""
    (world.state / quick.FILE).unlink()
    return world.environ


def settings_changed(world):
    """The settings file is another one than when it was read."""
    world.config.write_text("pool: other\n")
    return world.environ


def variables_changed(world):
    """A variable of ours was set."""
    return {**world.environ, "LXGPU_POOL": "other"}


def written_by_others(world):
    """Somebody else could have written what is remembered."""
    (world.state / quick.FILE).chmod(0o666)
    return world.environ


def older_schema(world):
    """The inventory has a schema that this lxgpu does not know."""
    remember(world.state, world.environ, world.where, schema=len(known()) + 1)
    return world.environ


def paused(world):
    """The daemon takes nothing, which is to be said."""
    (world.state / "paused").write_text("{}")
    return world.environ


def policy_never_read(world):
    """Whether the policy file is right is not known yet."""
    (world.state / "policy.yaml").write_text("version: 1\n")
    return world.environ


def policy_changed(world):
    """The policy file is another one than the one in force."""
    keep(world.state / "policy.json", stamp=[1, 2], plain={})
    return policy_never_read(world)


def lxd_away(world):
    """No server at the socket."""
    remember(world.state, world.environ, f"{world.where}.away")
    return world.environ


def no_inventory(world):
    """The inventory is gone."""
    (world.state / "inventory.db").unlink()
    return world.environ


def damaged_inventory(world):
    """The inventory is no database."""
    (world.state / "inventory.db").write_bytes(b"nonsense" * 1000)
    return world.environ


@pytest.mark.parametrize(
    "happens",
    [
        nothing_remembered,
        settings_changed,
        variables_changed,
        written_by_others,
        older_schema,
        paused,
        policy_never_read,
        policy_changed,
        lxd_away,
        no_inventory,
        damaged_inventory,
    ],
)
def test_out_of_the_ordinary_is_left_to_the_long_way(state, environ, tmp_path, happens):
    """The short way explains nothing, so it steps aside wherever there is something to explain."""
    with lxd(tmp_path, ROWS) as where:
        config = remember(state, environ, where)
        assert quick.containers(environ) is not None
        assert quick.containers(happens(World(state, environ, where, config))) is None


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([*ROWS, lxd_row("zoe", "u10")], "200 OK"),
        (ROWS, "403 Forbidden"),
        ([{"name": "alice"}], "200 OK"),
        ("nonsense", "200 OK"),
    ],
    ids=["lost", "refused", "strange", "nonsense"],
)
def test_what_lxd_says_out_of_the_ordinary_too(state, environ, tmp_path, rows, status):
    """A container that the inventory lost, a refusal, an answer that is none."""
    with lxd(tmp_path, rows, status=status) as where:
        remember(state, environ, where)
        assert quick.containers(environ) is None


def test_nothing_is_remembered_of_other_places(state, environ):
    """Where the state folder or the project is not the usual one, the long way stays the only one."""
    remember(state, {}, "/x")
    remember(state, environ, "/x", project="other")
    assert not (state / quick.FILE).exists()


@pytest.mark.usefixtures("state")
def test_the_command_goes_the_short_way(environ, tmp_path):
    """`lxgpu ls` in its plain forms loads neither click nor a model, and says the same as the long way says."""
    with lxd(tmp_path, ROWS) as where:
        (tmp_path / "config.yaml").write_text(
            f'hosts: [{{name: gpu1, socket: {where}}}]\nnetwork: {{listen: "{LISTEN}"}}\n'
        )
        os.utime(tmp_path / "config.yaml", (time.time() - 60,) * 2)
        variables = {
            **environ,
            "LXGPU_CONFIG": str(tmp_path / "config.yaml"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": os.environ["PATH"],
        }

        def run(*words):
            argv = [sys.executable, "-X", "importtime", "-m", "lxgpu", *words]
            ran = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False, timeout=60)
            loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
            return ran.returncode, ran.stdout, loaded

        first = run("ls", "-o", "json")
        assert "click" in first[2]
        for words in (["ls", "-o", "json"], ["ls"], ["ls", "-o", "name"]):
            status, text, loaded = run(*words)
            assert status == 0
            assert not loaded & {"click", "dataclasses", "yaml", "lxgpu.wiring", "lxgpu.errors", "typing"}
            long = run("--color", "never", *words)
            assert "click" in long[2]
            assert (0, text) == long[:2]
        assert first[1] == run("ls", "--json")[1]
        (tmp_path / "other.yaml").write_text(
            f"hosts: [{{name: gpu1, socket: {where}}}]\nnetwork: {{listen: 10.9.9.9}}\n"
        )
        assert "10.9.9.9" in run("--config", str(tmp_path / "other.yaml"), "ls", "-o", "json")[1]
        assert first[1] == run("ls", "--json")[1], "the settings of one run are not those of the next"


def test_the_folder_is_not_made_by_looking(tmp_path):
    """A machine without an inventory has none after `lxgpu ls` either."""
    folder = tmp_path / "none"
    variables = {**os.environ, "LXGPU_STATE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-m", "lxgpu", "ls", "-o", "json"], env=variables, capture_output=True, check=False, timeout=60
    )
    assert json.loads(ran.stdout)["items"] == []
    assert not Path(folder).exists()
