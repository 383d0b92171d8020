"""What is only looked at, and the ways in, on a real LXD."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from house import PROGRAM, House, house_for, until
from json_shapes import faults

from lxgpu.lab import Lab
from lxgpu.lab.faults import set_fault
from lxgpu.lab.jobs import JobSpec, start_job

pytestmark = pytest.mark.lab

ANN, BEN = f"ann{os.getpid()}", f"ben{os.getpid()}"
"""Names that no other lab on this machine has: LXD's firewall rules carry nothing but the name."""


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann holds two cards and ben none; a container that lxgpu did not make stands beside them."""
    for house in house_for(lab):
        house.ok("create", ANN, "--gpus", "2")
        house.ok("create", BEN)
        house.lxc("init", "base", f"web{os.getpid()}", "--quiet")
        yield house


def shapes(house: House, noun: str, *words: str) -> list[dict[str, object]]:
    """The items of a command's JSON, which have exactly the promised keys."""
    ran = house.ok(*words, "-o", "json")
    document = json.loads(ran.out)
    assert document["schema"] == f"lxgpu.{noun}/v1"
    assert [text for item in ran.items for text in faults(noun, item)] == []
    return ran.items


def elsewhere(house: House, where: Path, path: Path) -> House:
    """The same lab, its LXD looked for at another socket."""
    text = Path(house.env["LXGPU_CONFIG"]).read_text()
    where.write_text(re.sub(r"socket: [^}]+", f"socket: {path}", text))
    moved = House(house.lab)
    moved.env = {**house.env, "LXGPU_CONFIG": str(where)}
    return moved


def test_ls_is_what_lxd_and_the_inventory_say(house: House) -> None:
    """Names, states, cards, login; foreign ones and templates only or never shown."""
    ann, ben = shapes(house, "instances", "ls")
    assert (ann["name"], ann["state"], len(ann["gpus"])) == (ANN, "running", 2)
    assert {held["pci"] for held in ann["gpus"]} == {card.pci for card in house.cards_of(ANN)}
    assert {held["model"] for held in ann["gpus"]} == {"NVIDIA GeForce RTX 3090"}
    assert (ben["gpus"], ben["disk_used_bytes"]) == ([], None)
    assert ann["ssh"]["host"] == house.lab.address
    everything = shapes(house, "instances", "ls", "--all", "--usage")
    assert [item["state"] for item in everything] == ["running", "running", "foreign"]
    assert everything[0]["disk_used_bytes"] > 0


def test_both_ways_of_ls_say_the_same(house: House) -> None:
    """The short way, which plain forms take, and the long one."""
    house.ok("--color", "never", "ls")
    for words in (["ls"], ["ls", "-o", "json"], ["ls", "-o", "name"]):
        assert house.ok(*words).out == house.ok("--color", "never", *words).out


class Counter:
    """Stands before LXD's socket and counts the requests that come through."""

    def __init__(self, path: Path, target: str) -> None:
        self.requests: list[str] = []
        self._target = target
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            wire, _ = self._server.accept()
            with wire, socket.socket(socket.AF_UNIX) as lxd:
                lxd.connect(self._target)
                request = wire.recv(65536)
                self.requests.append(request.split(b"\r\n")[0].decode())
                lxd.sendall(request)
                while piece := lxd.recv(65536):
                    wire.sendall(piece)


def test_ls_asks_lxd_once(house: House, tmp_path: Path) -> None:
    """One request, by the short way and by the long one."""
    counter = Counter(tmp_path / "counting", str(house.lab.socket))
    counted = elsewhere(house, tmp_path / "config.yaml", tmp_path / "counting")
    os.utime(tmp_path / "config.yaml", (0, 0))
    for words in (["--color", "never", "ls"], ["ls"], ["ls", "-o", "wide"]):
        counter.requests.clear()
        assert ANN in counted.ok(*words).out
        assert len(counter.requests) == 1, words
    house.ok("--color", "never", "ls")


def test_without_lxd_the_inventory_answers(house: House, tmp_path: Path) -> None:
    """LXD away: what is known is listed, what is not is null, and it is said."""
    away = elsewhere(house, tmp_path / "config.yaml", tmp_path / "nothing")
    ran = away.run("ls", "-o", "json")
    assert ran.status == 8
    assert [(item["name"], item["state"]) for item in ran.items] == [(ANN, "unreachable"), (BEN, "unreachable")]
    assert "what the inventory knows" in ran.err
    cards = away.run("gpus", "-o", "json").items
    assert sorted(str(slot["state"]) for card in cards for slot in card["slots"]) == [
        "None",
        "None",
        "active",
        "active",
    ]
    status = json.loads(away.run("status", "-o", "json").out)["items"][0]
    assert (status["gpus"]["free"], status["problems"][0]["subject"]) == (None, "LXD")
    assert away.refused(8, "ssh", ANN, "--", "id").error == "unavailable"


def test_a_job_shows_on_its_card(house: House) -> None:
    """Utilisation, memory and the process with its container and account; then nothing of it."""
    card = house.cards_of(ANN)[0]
    job = start_job(house.lab, JobSpec(instance=ANN, gpu=card.uuid, util_percent=70, memory_bytes=2**30, user=ANN))
    try:
        (busy,) = [item for item in shapes(house, "gpus", "gpus") if item["uuid"] == card.uuid]
        assert (busy["utilization_percent"], busy["verdict"], busy["health"]) == (70, "busy", "ok")
        (process,) = busy["processes"]
        assert (process["pid"], process["instance"], process["user"]) == (job.pid, ANN, ANN)
        assert process["memory_bytes"] == 2**30
        assert f"{job.pid} of {ANN} in {ANN}, 1GiB" in house.ok("show", card.uuid).out
    finally:
        os.kill(job.pid, 9)

    def idle() -> bool:
        items = house.ok("gpus", "-o", "json").items
        return all(item["processes"] == [] and item["verdict"] == "idle" for item in items)

    assert until(idle)


def test_a_lost_card_hides_no_other(house: House) -> None:
    """One card gone from NVML: it is sick, the others are as they are, and the host says so."""
    card = next(card for card in house.lab.gpus if card not in house.cards_of(ANN))
    set_fault(house.lab, card.uuid, "lost")
    try:
        health = {item["uuid"]: item["health"] for item in shapes(house, "gpus", "gpus")}
        assert health == {other.uuid: "sick" if other is card else "ok" for other in house.lab.gpus}
        (status,) = shapes(house, "status", "status")
        assert [problem["subject"] for problem in status["problems"]] == [card.uuid]
        free = house.ok("gpus", "--free", "-o", "name").out.split()
        assert len(free) == 1
        assert card.uuid not in free
    finally:
        set_fault(house.lab, card.uuid, "clear")


def test_the_first_line(house: House) -> None:
    """What is free and when more will be stands first, everywhere."""
    for words in (["gpus"], ["status"]):
        first = house.ok(*words).out.splitlines()[0]
        assert re.fullmatch(r"2 of 4 GPUs free; next at .*", first), first


def test_a_card_goes_by_many_names(house: House) -> None:
    """UUID, the beginning of it, and the PCI address in any form."""
    card = house.cards_of(ANN)[0]
    wanted = house.ok("show", card.uuid, "-o", "json").items[0]["uuid"]
    assert wanted == card.uuid
    for name in (card.uuid[:18], card.pci, f"0000{card.pci.upper()}", card.pci.removeprefix("0000:")):
        assert house.ok("show", name, "-o", "json").items[0]["uuid"] == card.uuid
    assert house.refused(2, "show", card.uuid[:9]).error == "usage"
    assert house.refused(3, "show", "nobody").error == "not_found"


def test_a_card_attached_by_hand_is_told(house: House) -> None:
    """Behind lxgpu's back: the card is not free, and who has it is named."""
    card = next(card for card in house.lab.gpus if card not in house.cards_of(ANN))
    house.lxc("config", "device", "add", BEN, "mine", "gpu", f"pci={card.pci}")
    try:
        assert house.slots()[card.uuid] == (BEN, "foreign")
        assert f"{BEN} has it attached without lxgpu" in house.ok("why", card.uuid).out
    finally:
        house.lxc("config", "device", "remove", BEN, "mine")


def test_show_tells_all(house: House) -> None:
    """Cards, limits, login, keys, history."""
    text = house.ok("show", ANN).out
    view = house.ok("ls", "-o", "json").items[0]
    limits = f"{view['limits']['cpu']} CPU, {view['limits']['memory_bytes'] >> 30}GiB memory, 2GiB disk ("
    for word in (f"{ANN}: running on", "RTX 3090", limits, f"-p {view['ssh']['port']} {ANN}@", "SHA256:"):
        assert word in text, text
    assert "created by" in text


def test_history_and_why(house: House) -> None:
    """Who did what; a refusal is remembered with its reason; what held then can be asked for."""
    assert house.run("create", f"eve{os.getpid()}", "--gpus", "9").status in {5, 7}
    events = shapes(house, "events", "history", "--subject", f"eve{os.getpid()}")
    assert [event["kind"] for event in events] == ["refused"]
    told = shapes(house, "reasons", "why", f"eve{os.getpid()}")
    assert told[0]["code"] == "refused"
    card = house.cards_of(ANN)[0]
    assert [event["kind"] for event in shapes(house, "events", "history", "--subject", card.pci)] == ["attached"]
    (reason,) = shapes(house, "reasons", "why", card.uuid)
    assert (reason["code"], reason["actor"]) == ("active", "root")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for when, holders in (("2026-01-01", set()), (now, {ANN}), ("+1h", {ANN}), ("+30d", set())):
        cards = shapes(house, "gpus", "gpus", "--at", when)
        assert {slot["holder"] for item in cards for slot in item["slots"]} - {None} == holders, when


def test_ssh_asks_nothing(house: House) -> None:
    """The first login goes through without a question, a stranger's host key would not; the status comes back."""
    ran = house.ok("ssh", ANN, "--", "id", "-un")
    assert (ran.out, ran.err) == (f"{ANN}\n", "")
    assert house.run("ssh", ANN, "--", "exit 7").status == 7
    assert house.ok("ssh", ANN, "--", "echo", "$HOME").out == f"/home/{ANN}\n"


def test_ssh_fails_when_another_answers(house: House) -> None:
    """The key that is expected is the container's own: what answers with another one is not logged in to."""
    path = "/etc/ssh/ssh_host_ed25519_key.pub"
    true = house.sh(BEN, f"cat {path}")
    house.sh(BEN, f"ssh-keygen -q -t ed25519 -N '' -f /tmp/k && cp /tmp/k.pub {path}")
    ran = house.run("ssh", BEN, "--", "id")
    assert ran.status == 255
    assert "Host key verification failed" in ran.err
    house.sh(BEN, f"echo '{true}' >{path}")
    house.ok("ssh", BEN, "--", "true")


def test_a_pipe_for_a_host_key_holds_nobody_up(house: House) -> None:
    """Root inside cannot make lxgpu wait, nor make the container impossible to stop."""
    path = "/etc/ssh/ssh_host_ed25519_key.pub"
    house.sh(BEN, f"mv {path} /root/kept && mkfifo {path}")
    assert house.refused(6, "ssh", BEN, "--", "id").error == "not_ready"
    house.ok("stop", BEN, "--yes")
    assert house.refused(6, "ssh", BEN).error == "not_ready"
    house.lxc("file", "delete", f"{BEN}{path}")  # sshd waits for a pipe too, but that is its owner's affair
    house.ok("start", BEN)
    house.sh(BEN, f"mv /root/kept {path}")
    assert until(lambda: house.run("ssh", BEN, "--", "true").status == 0)


def test_ssh_config_is_all_a_client_needs(house: House, tmp_path: Path) -> None:
    """Stanzas and known_hosts lines, used by a plain ssh, which asks nothing either."""
    known = tmp_path / "known"
    known.write_text(house.ok("ssh-config", "--known-hosts").out)
    text = house.ok("ssh-config").out
    assert [line.split()[1] for line in text.splitlines() if line.startswith("Host ")] == [ANN, BEN]
    (tmp_path / "config").write_text(f"{text}Host *\n    UserKnownHostsFile {known}\n    StrictHostKeyChecking yes\n")
    key = house.lab.paths.state / "keys" / ANN
    argv = ["ssh", "-F", str(tmp_path / "config"), "-o", "BatchMode=yes", "-i", str(key), ANN, "id", "-un"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (f"{ANN}\n", "")
    assert len(house.ok("ssh-config", ANN, "--known-hosts").out.splitlines()) == 1


def test_exec_runs_as_root_and_tells_the_end(house: House) -> None:
    """Output, input and status go through; what follows `--` belongs to the program."""
    assert house.ok("exec", ANN, "--", "id", "-un").out == "root\n"
    assert house.run("exec", ANN, "--", "sh", "-c", "echo 'a  b'; exit 3").out == "a  b\n"
    assert house.run("exec", ANN, "--", "sh", "-c", "exit 3").status == 3
    assert house.run("exec", ANN, "--", "no-such-program").status == 127
    assert house.ok("exec", ANN, "--", "echo", "-n", "x").out == "x\n"
    assert house.refused(9, "exec", "--timeout", "1s", ANN, "--", "sleep", "30").error == "outcome_unknown"
    assert house.refused(3, "exec", f"web{os.getpid()}", "--", "id").error == "not_found"
    argv = [*PROGRAM, "exec", "-i", ANN, "--", "cat"]
    done = subprocess.run(argv, input="hello", capture_output=True, text=True, env=house.env, check=False, timeout=60)
    assert done.stdout.strip() == "hello"


def test_exec_on_a_terminal_gives_one(house: House) -> None:
    """On a terminal the program gets a terminal, and its status comes back."""
    parent, child = pty.openpty()
    argv = [*PROGRAM, "exec", ANN, "--", "sh", "-c", "tty; exit 5"]
    with subprocess.Popen(argv, stdin=child, stdout=child, stderr=child, env=house.env, start_new_session=True) as ran:
        os.close(child)
        seen = b""
        while select.select([parent], [], [], 60)[0]:
            try:
                seen += os.read(parent, 4096)
            except OSError:  # the last writer has gone
                break
    os.close(parent)
    assert b"/dev/pts/" in seen
    assert ran.returncode == 5
