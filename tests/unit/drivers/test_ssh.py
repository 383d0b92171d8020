"""A probe through SSH, with a real server: who is spoken to, and what is told when that cannot be."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from itertools import count

import paramiko
import pytest
from ssh_door import Door

from lxgpu.drivers.login import ParamikoLogin
from lxgpu.drivers.probe import LocalProbe
from lxgpu.drivers.remote import RemoteProbe
from lxgpu.drivers.ssh import run_there
from lxgpu.errors import LxgpuError

PROBE = f"PYTHONPATH={shlex.quote(os.pathsep.join(sys.path))} {shlex.quote(sys.executable)} -m lxgpu probe"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder .ssh of the account that runs lxgpu, with a key; no agent."""
    folder = tmp_path / ".ssh"
    folder.mkdir(mode=0o700)
    private, public = ParamikoLogin().new_key("admin")
    (folder / "id_ed25519").write_text(private)
    (folder / "id_ed25519").chmod(0o600)
    (folder / "id_ed25519.pub").write_text(public)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def door(home):
    """Another host's sshd, which takes that key and is known here."""
    made = Door([(home / "id_ed25519.pub").read_text()], runs=True)
    knows(home, made, made.host_line())
    yield made
    made.close()


def knows(home, door, line):
    """That key is the known one of the host."""
    (home / "known_hosts").write_text(f"[127.0.0.1]:{door.port} {line}\n")


def start(door, command=PROBE):
    """A program there."""
    return run_there("root", "127.0.0.1", door.port, command, timeout_s=30)


def refusal(door):
    """Why it was not to be."""
    with pytest.raises(LxgpuError) as raised:
        start(door)
    assert raised.value.code == "unavailable"
    return raised.value


def test_a_probe_through_ssh(door):
    """The same answers as here, over one connection; the program there ends with it."""
    probe = RemoteProbe("gpu2", lambda: start(door))
    assert {probe.boot_id() for _ in range(3)} == {LocalProbe().boot_id()}
    assert door.port in probe.listening_ports()
    probe.close()
    assert [program.wait(30) for program in door.programs] == [0]


def test_a_host_that_is_not_known_is_not_spoken_to(door, home):
    """No key is shown to it; the fix is a command."""
    (home / "known_hosts").unlink()
    error = refusal(door)
    assert "not among the known hosts" in error.why[0]
    assert f"ssh -p {door.port} root@127.0.0.1" in error.fix
    assert not door.tried


def test_a_host_with_another_key_is_not_spoken_to(door, home):
    """Nor is one that says it is another."""
    other = paramiko.ECDSAKey.generate()
    knows(home, door, f"{other.get_name()} {other.get_base64()}")
    assert "another key" in refusal(door).why[0]
    assert not door.tried


def test_a_key_that_is_not_taken_is_told(door):
    """With what to do there."""
    door.lines.clear()
    assert "authorized_keys of root on 127.0.0.1" in refusal(door).fix


def test_a_closed_port_is_told(door):
    """As what it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        door.port, port = server.getsockname()[1], door.port
    found = refusal(door)
    door.port = port
    assert "connect" in found.why[0].lower()


def test_a_program_that_is_missing_there_is_told(door):
    """The shell's words come with the error."""
    probe = RemoteProbe("gpu2", lambda: start(door, "/nonexistent/lxgpu probe"))
    with pytest.raises(LxgpuError) as raised:
        probe.boot_id()
    assert "/nonexistent/lxgpu" in raised.value.why[0]


def test_a_connection_that_is_cut_is_made_again(door):
    """The network goes for a moment; the next look is answered."""
    times = count(0, 100)
    probe = RemoteProbe("gpu2", lambda: start(door), monotonic=lambda: next(times))
    boot = probe.boot_id()
    door.cut()
    found = set()
    for _ in range(3):
        try:
            found.add(probe.boot_id())
        except LxgpuError as error:
            assert error.code == "unavailable"  # noqa: PT017 -- either is right, until the end is noticed
    assert found == {boot}
    probe.close()
