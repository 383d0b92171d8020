"""Every day's things without an admin: `gpu` over SSH, what one reads at login, the page's door, a newcomer's key."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guest_client import answer, dial
from house import House, Ran, until, with_daemon, without_cards

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/(in|join)#([\w-]{40,})\n")


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Alice and bob have containers without cards, and the daemon is at work."""
    yield from with_daemon(lab)


@pytest.fixture(autouse=True)
def _clear(house: House) -> Iterator[None]:
    """Each test begins without cards and reservations."""
    yield
    without_cards(house)


def _ask(house: House, method: str, way: str, body: object = None, *, session: str = "") -> tuple[int, dict[str, Any]]:
    """A question of the page's process."""
    content = b"" if body is None else json.dumps(body).encode()
    shown = f"Authorization: Bearer {session}\r\n" if session else ""
    head = f"{method} {way} HTTP/1.1\r\nHost: x\r\n{shown}Content-Type: application/json\r\n"
    with dial(house.door) as link:
        link.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        return answer(link)


def _session(house: House, name: str) -> str:
    """A session of a container, by the link that `gpu web` prints in it."""
    found = ADDRESS.fullmatch(house.ssh(name, "gpu web").out)
    assert found is not None
    assert found[1] == "in"
    status, told = _ask(house, "POST", "/v1/enter", {"token": found[2]})
    assert (status, told["name"], told["kind"]) == (200, name, "person")
    again, _ = _ask(house, "POST", "/v1/enter", {"token": found[2]})
    assert again == 403, "a link opens once"
    return str(told["session"])


def test_alice_needs_no_admin(house: House) -> None:
    """Over SSH, as she types it: look, reserve, keep, why, run, give back; and her banner says what is true."""

    def alice(words: str) -> Ran:
        ran = house.ssh("alice", words)
        assert ran.status == 0, f"{words}: {ran.out}{ran.err}"
        return ran

    def motd() -> list[str]:
        return alice("cat /etc/motd").out.splitlines()

    assert alice("gpu").out.splitlines()[1] == "alice holds no GPU"
    assert until(lambda: motd()[:2] == ["4 of 4 GPUs free", "You hold no GPU."]), motd()
    assert len(motd()) == 3
    alice("gpu reserve 1 --for 2h --note 'a first try'")
    assert until(lambda: [row.state.value for row in house.records().held_by("alice")] == ["active"])

    def end() -> str:
        """The end of her card's time as the lab's clock shows it, today's or tomorrow's."""
        (held,) = house.records().held_by("alice")
        assert held.until is not None
        return f"(tomorrow )?{held.until:%H:%M}"

    assert until(lambda: re.fullmatch(rf"You hold 1 GPU until {end()}\.", motd()[1])), motd()
    assert re.fullmatch(rf"3 of 4 GPUs free; next at {end()}", motd()[0])
    assert until(lambda: re.fullmatch(rf"1 GPU until {end()}", alice("gpu --short").out.strip()))
    assert "kept until" in alice("gpu keep 1h --reason x; gpu").out
    assert "holds it" in alice("gpu why").out
    assert alice("gpu run -- sh -c 'ls /dev/dri | grep -c card'").out == "1\n"
    (booked,) = [row.id for row in house.records().reservations if row.instance == "alice"]
    assert "changed" in alice(f"gpu edit {booked} --for 1h --note 'a second'").out
    after = house.records().reservation(booked)
    assert after is not None
    assert (after.note, after.start is not None and after.until is not None) == ("a second", True)
    assert alice("gpu release").out.splitlines()[-1] == "given back"
    assert until(lambda: motd()[:2] == ["4 of 4 GPUs free", "You hold no GPU."]), motd()
    assert alice("gpu --short").out == "no GPU\n"


def test_bob_cannot_act_for_alice(house: House) -> None:
    """Neither on his socket nor with a session of his own, whatever he names."""
    assert house.ssh("alice", "gpu reserve 1 --for 1h").status == 0
    assert until(lambda: [row.state.value for row in house.records().held_by("alice")] == ["active"])
    (booked,) = [row.id for row in house.records().reservations if row.instance == "alice"]
    for words in (f"gpu cancel {booked}", f"gpu edit {booked} --for 30m"):
        ran = house.ssh("bob", words)
        assert (ran.status, "error[not_found]" in ran.err) == (3, True)
    session, before = _session(house, "bob"), house.records().reservation(booked)
    for way, body in (
        ("cancel", {"id": booked}),
        ("edit", {"id": booked, "gpus": 2}),
        ("release", {"instance": "alice"}),
    ):
        assert _ask(house, "POST", f"/v1/{way}", body, session=session)[0] in {400, 404}
    assert _ask(house, "POST", "/v1/release", {}, session=session)[1]["text"] == "it holds no GPU"
    status, told = _ask(house, "GET", "/v1/status", session=session)
    assert (status, told["instance"], told["gpus"]) == (200, "bob", [])
    assert "alice" not in json.dumps(told)
    assert house.records().reservation(booked) == before
    assert house.held("alice")


def test_the_pages_door_is_open_to_the_page_alone(house: House) -> None:
    """Not to other accounts of the host, not to root inside a container."""
    folder = house.door.parent
    assert stat.S_IMODE(folder.stat().st_mode) in {0o700, 0o750}
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", CONNECT, str(house.door)], user=65534, group=65534, extra_groups=[],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, "PermissionError" in ran.stderr) == (1, True)
    assert house.sh("alice", f"ls {folder} 2>&1", check=False).endswith("No such file or directory")
    assert "page" not in house.sh("alice", "ls -R /var/lib/lxgpu")


def test_a_viewer_changes_nothing_and_passes_are_roots(house: House) -> None:
    """`lxgpu web --link` without a name; nothing of a link is kept, said or told in the history."""
    found = ADDRESS.fullmatch(house.ok("web", "--link").out)
    assert found is not None
    status, told = _ask(house, "POST", "/v1/enter", {"token": found[2]})
    assert (status, told["name"], told["kind"]) == (200, None, "viewer")
    assert _ask(house, "GET", "/v1/status", session=told["session"])[0] == 403
    assert _ask(house, "POST", "/v1/reserve", {"gpus": 1, "seconds": 60}, session=told["session"])[0] == 403
    passes = house.lab.paths.state / "passes.json"
    assert stat.S_IMODE(passes.stat().st_mode) == 0o600
    history = house.ok("history", "-o", "json").out
    for secret in (found[2], told["session"]):
        assert secret not in passes.read_text() + history
    assert _ask(house, "POST", "/v1/leave", session=told["session"]) == (200, {"state": "done"})
    assert _ask(house, "GET", "/v1/me", session=told["session"])[0] == 401
    house.refused(3, "web", "--link", "nobody-here")


def test_a_newcomer_brings_a_key_once(house: House, tmp_path: Path) -> None:
    """The invitation's address takes one key, and that key logs in."""
    found = ADDRESS.fullmatch(house.ok("keys", "invite", "bob").out)
    assert found is not None
    assert found[1] == "join"
    for name in ("id", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    line, other = ((tmp_path / f"{name}.pub").read_text() for name in ("id", "other"))
    assert _ask(house, "POST", "/v1/invited", {"token": found[2]})[1]["name"] == "bob"
    assert _ask(house, "POST", "/v1/key", {"token": found[2], "key": "-----BEGIN"})[0] == 400
    status, told = _ask(house, "POST", "/v1/key", {"token": found[2], "key": line})
    assert (status, told["name"], told["ssh"]["user"]) == (200, "bob", "bob")
    assert _ask(house, "POST", "/v1/key", {"token": found[2], "key": other})[0] == 403
    assert _ask(house, "POST", "/v1/invited", {"token": found[2]})[1]["taken"]["ssh"] == told["ssh"]
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
    where = ["-i", str(tmp_path / "id"), "-p", str(told["ssh"]["port"]), f"bob@{told['ssh']['host']}"]
    argv = ["ssh", *(word for option in options for word in ("-o", option)), *where, "id -un"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout == "bob\n"
    newest_first = house.ok("history", "--subject", "bob", "-o", "json").items
    assert {row["kind"]: row["actor"] for row in newest_first}["key_added"] == "bob (invited)"


def test_a_session_ends_with_its_container(house: House) -> None:
    """Carol's is deleted, and another carol's container gets none of it."""
    house.ok("create", "carol")
    assert until(lambda: house.ssh("carol", "gpu").status == 0, limit_s=30)
    session = _session(house, "carol")
    house.ok("delete", "carol", "--purge", "--yes")
    assert _ask(house, "GET", "/v1/me", session=session)[0] == 401
    house.ok("create", "carol")
    try:
        assert _ask(house, "GET", "/v1/status", session=session)[0] == 401
    finally:
        house.ok("delete", "carol", "--purge", "--yes")


def test_completion_and_manual_come_with_gpu(house: House) -> None:
    """In an interactive shell, and where `man` looks; an own file in their place is left alone."""
    assert "_gpu" in house.ssh("alice", "bash -lic 'complete -p gpu' 2>/dev/null").out
    asked = (
        "bash -ic '. /usr/share/bash-completion/bash_completion; _completion_loader gpu; complete -p gpu' 2>/dev/null"
    )
    assert "_gpu" in house.ssh("alice", asked).out, "in a shell that is no login's, at the first Tab"
    assert house.ssh("alice", "man -w gpu").out.strip().endswith("/man1/gpu.1")
    assert "look, book, keep, give back" in house.ssh("alice", "man gpu | cat").out
    assert house.sh("alice", "head -n 1 /usr/local/share/man/man1/gpu.1").startswith('.\\" gpu of lxgpu')
    for path in ("bin/gpu", "share/man/man1/gpu.1", "share/bash-completion/completions/gpu"):
        assert house.sh("alice", f"stat -c '%U %a' /usr/local/{path}") in {"root 755", "root 644"}
    house.sh("alice", "echo mine >/usr/local/share/man/man1/gpu.1; rm /usr/local/bin/gpu")
    house.ok("restart", "alice", "--yes")
    assert house.sh("alice", "cat /usr/local/share/man/man1/gpu.1") == "mine"
    assert house.ssh("alice", "gpu").status == 0
