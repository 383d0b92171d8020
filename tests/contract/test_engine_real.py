"""What only a real LXD can show of the engine driver: races, killed clients, a killed daemon, filters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lxgpu.drivers.engine import LxdEngine
from lxgpu.model.devices import gpu_device, gpu_device_name, hwaddr_for, nic_device
from lxgpu.model.instance import Power
from lxgpu.ports import Change

pytestmark = pytest.mark.lab

_WRITER = """
import sys
from lxgpu.drivers.engine import LxdEngine
from lxgpu.ports import Change
socket, name, mark, etag = sys.argv[1:]
engine = LxdEngine(socket)
engine.put_promises({}, etag=None)
print("ready", flush=True)
sys.stdin.readline()
engine.update(name, Change(config={"user.late": mark}), etag=etag)
"""


@pytest.fixture
def bench(real_bench):
    """The real engine only."""
    return real_bench


def test_no_write_of_four_writers_is_lost(bench, engine):
    """Writers without an ETag read again when they met another; LXD's "busy" is waited out."""
    name = bench.make(running=True)

    def write(writer: int) -> None:
        own = LxdEngine(bench.socket)
        for number in range(5):
            own.update(name, Change(config={f"user.w{writer}.{number}": "1"}), etag=None)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([key for key in engine.instance(name).config if key.startswith("user.w")]) == 20


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 5, 8])
def test_after_a_barrier_a_killed_writer_has_written_or_never_will(bench, engine, delay_ms):
    """What is read after the barrier stays: a PUT of a killed client does not land later."""
    name = bench.make()
    etag = engine.instance(name).etag
    argv = [sys.executable, "-c", _WRITER, bench.socket, name, str(delay_ms), etag]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        writer.stdin.write("\n")
        writer.stdin.flush()
        time.sleep(delay_ms / 1000)
        writer.kill()
        engine.barrier(name)
        seen = engine.instance(name).config.get("user.late")
        time.sleep(0.4)
        assert engine.instance(name).config.get("user.late") == seen


def test_a_clean_stop_that_is_not_heard_is_unknown(bench, engine, refused):
    """An init that ignores the signal keeps the instance running; force then stops it."""
    name = bench.make(running=True)
    os.kill(engine.instance(name).init_pid, signal.SIGSTOP)
    refused("outcome_unknown", engine.stop, name, timeout_s=1, force=False)
    assert engine.instance(name).power is Power.RUNNING
    engine.stop(name, timeout_s=20, force=True)
    assert engine.instance(name).power is Power.STOPPED


def test_a_program_over_its_time_is_ended(bench, engine, refused):
    """The caller gets its answer in time, and nothing of the program stays behind."""
    name = bench.make(running=True)
    begun = time.monotonic()
    error = refused(
        "outcome_unknown", engine.run, name, ["sh", "-c", "echo begun; sleep 300"], environment={}, timeout_s=1
    )
    assert time.monotonic() - begun < 60
    assert "begun" in " ".join(error.why)
    assert "sleep 300" not in engine.run(name, ["ps", "ax"], environment={}, timeout_s=10).output


def test_a_program_sees_its_environment_and_both_streams_come_back(bench, engine):
    """Output and errors are one text in the order they were written; the input file is gone."""
    name = bench.make(running=True)
    argv = ["sh", "-c", "echo out; echo err >&2; echo $LXGPU_WORD; cat; exit 9"]
    ran = engine.run(name, argv, environment={"LXGPU_WORD": "word"}, timeout_s=10, stdin=b"in")
    assert (ran.status, ran.output) == (9, "out\nerr\nword\nin")
    assert (
        engine.run(name, ["sh", "-c", "ls /run/lxgpu-input-* 2>/dev/null"], environment={}, timeout_s=10).output == ""
    )


def test_modes_and_owners_are_set_also_on_a_file_that_is_there(bench, engine):
    """A secret pushed over a readable file is not readable for a moment; LXD alone keeps the old mode."""
    name = bench.make(running=True)
    look = ["stat", "-c", "%a %u %g %s", "/root/f"]
    for mode, uid, gid, content in ((0o644, 0, 0, b"open"), (0o600, 1000, 1001, b"secret"), (0o755, 0, 0, b"")):
        engine.push(name, "/root/f", content, mode=mode, uid=uid, gid=gid)
        assert engine.run(name, look, environment={}, timeout_s=10).output == f"{mode:o} {uid} {gid} {len(content)}\n"
    engine.run(name, ["ln", "-sf", "/etc/passwd", "/root/link"], environment={}, timeout_s=10)
    engine.push(name, "/root/link", b"mine", mode=0o777)
    assert b"root:" in engine.pull(name, "/etc/passwd")
    assert engine.pull(name, "/root/link") == b"mine"


def test_an_attach_is_one_write_and_few_requests(bench, engine):
    """GET, PUT and the wait for it, with keys, devices and rule together."""
    name = bench.make(running=True)
    card = bench.gpus[0]
    before = engine.requests
    change = Change(config={"user.lxgpu.holds": "[]", "raw.lxc": ""}, devices={gpu_device_name(card): gpu_device(card)})
    engine.update(name, change, etag=None)
    assert engine.requests - before == 3


def test_a_failed_start_shows_the_log(bench, engine, refused):
    """LXD's own words say little; the ERROR lines of liblxc name the cause."""
    name = bench.make(change=Change(config={"raw.lxc": "lxc.mount.entry = /no-such-source mnt none bind 0 0"}))
    error = refused("engine", engine.start, name)
    assert any("ERROR" in line and "/no-such-source" in line for line in error.why[1:])


def test_a_neighbour_cannot_take_another_address(bench, engine):
    """With the filters an own address works and a borrowed one does not, neither hardware nor IPv4."""
    net = engine.network(bench.network).gateway.rpartition(".")[0]
    gateway = engine.network(bench.network).gateway.partition("/")[0]
    assert gateway in engine.network(bench.network).leased
    own, other = f"{net}.241", f"{net}.242"
    name = bench.make(change=Change(devices={"eth0": nic_device(bench.network, own, hwaddr_for(own))}), running=True)

    def shell(line: str) -> str:
        return engine.run(name, ["sh", "-c", line], environment={}, timeout_s=30).output

    def reaches(source: str) -> bool:
        probe = f"import socket; socket.create_connection(('{gateway}', 53), 1.5, ('{source}', 0))"
        return shell(f'python3 -c "{probe}" >/dev/null 2>&1 && echo yes || echo no') == "yes\n"

    shell("systemctl is-system-running --wait; systemctl stop systemd-networkd.socket systemd-networkd")
    shell(f"ip addr flush dev eth0; ip addr add {own}/24 dev eth0; ip link set eth0 up")
    assert reaches(own)
    assert own not in engine.network(bench.network).leased, "the next container at that address has the same card"
    shell(f"ip addr flush dev eth0; ip addr add {other}/24 dev eth0; ip neigh flush all")
    assert not reaches(other)
    shell(f"ip addr flush dev eth0; ip link set eth0 down; ip link set eth0 address {hwaddr_for(other)}")
    shell(f"ip link set eth0 up; ip addr add {own}/24 dev eth0; ip neigh flush all")
    assert not reaches(own)


@pytest.mark.parametrize("delay_ms", [10, 16, 22, 30])
def test_a_daemon_killed_in_an_attach_leaves_what_left_nodes_tells(bench, engine, restart_daemon, delay_ms):
    """Whatever the moment: unknown or done, and node files without a device are named; a restart cures."""
    name = bench.make(running=True)
    card = bench.gpus[0]
    device = {gpu_device_name(card): gpu_device(card)}
    ended: list[str] = []

    def attach() -> None:
        try:
            LxdEngine(bench.socket, timeout_s=5).update(name, Change(devices=device), etag=None)
            ended.append("done")
        except Exception as error:  # noqa: BLE001 - whatever it is must be one of ours, which is checked below
            ended.append(getattr(error, "code", repr(error)))

    thread = threading.Thread(target=attach)
    LxdEngine(bench.socket).barrier(name)
    thread.start()
    time.sleep(delay_ms / 1000)
    restart_daemon()
    thread.join()
    assert ended[0] in {"done", "outcome_unknown", "unavailable"}
    engine.barrier(name)
    seen = engine.instance(name)
    left = engine.left_nodes(name)
    assert all(f"unix.{gpu_device_name(card).replace('-', '--')}." in path for path in left)
    if seen.devices or not left:
        return
    engine.stop(name, timeout_s=20, force=True)
    engine.start(name)
    engine.update(name, Change(devices=device), etag=None)
    assert engine.left_nodes(name) == ()


@pytest.mark.parametrize("stage", ["new made", "old put aside", "new in place", "inherited", "only old"])
def test_a_rebuild_cut_short_is_finished_by_the_next(bench, engine, stage):
    """Whatever write was the last before a crash, calling it again ends in the same state and leaves nothing over."""
    device = gpu_device(bench.gpus[0])
    name = bench.make(change=Change(config={"user.a": "1"}, devices={"g": device}))
    engine.start(name)  # so that it has all its volatile keys
    engine.push(name, "/root/f", b"old", mode=0o600)
    engine.stop(name, timeout_s=20, force=True)
    before = engine.instance(name)
    new, old = f"lxgpu-new-{name}", f"lxgpu-old-{name}"
    bench.made += [new, old]
    if stage != "only old":
        engine.create(new, source=f"image:{bench.image}", change=Change(), profiles=["default"])
    if stage != "new made":
        engine.rename(name, old)
    if stage in {"new in place", "inherited"}:
        engine.rename(new, name)
    if stage == "inherited":
        keys = {"volatile.uuid": before.uuid, "user.a": "1"}
        engine.update(name, Change(config=keys, devices={"g": device}), etag=None)
    engine.rebuild_root(name, source=f"image:{bench.image}")
    after = engine.instance(name)
    assert (after.uuid, after.devices, after.config["user.a"]) == (before.uuid, before.devices, "1")
    assert engine.pull(name, "/root/f") is None
    assert not [seen for seen in engine.instances(with_state=False) if seen.name.startswith("lxgpu-")]
    engine.start(name)
