"""A lab as people use it: the real lxgpu and lxc programs, and what is true afterwards, found without lxgpu's code."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labkit import lxc

from lxgpu.inventory.store import open_readonly
from lxgpu.lab import Lab
from lxgpu.lab.spec import Card
from lxgpu.model.snapshot import Records

PROGRAM = (sys.executable, "-m", "lxgpu")
TEMPLATE = "lxgpu-template-"
OPEN = (
    "import os, sys\n"
    "for p in sys.argv[1:]:\n"
    " try: os.close(os.open(p, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)); print(0)\n"
    " except OSError as e: print(e.errno)\n"
)
"""Run inside: what opening each path answers, 0 or the errno."""
DRI = (
    "import glob, os\n"
    "for p in glob.glob('/dev/dri/*'):\n"
    " try: os.close(os.open(p, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)); e = 0\n"
    " except OSError as error: e = error.errno\n"
    " print(os.path.basename(p), e)\n"
)
"""Run inside: the cards' nodes below /dev/dri, and what opening each answers."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """What a command with `-o json` listed."""
        found: list[dict[str, Any]] = json.loads(self.out)["items"]
        return found

    @property
    def error(self) -> str:
        """The code of the error, or nothing."""
        line = next((line for line in self.err.splitlines() if line.startswith("error[")), "error[]")
        return line.partition("[")[2].partition("]")[0]


def until(what: Callable[[], object], *, limit_s: float = 20) -> bool:
    """Wait for something to be true."""
    deadline = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


class House:
    """One lab, and the commands that people give there."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.env = {**os.environ, **lab.env(), "LXD_CONF": str(lab.paths.client), "NO_COLOR": "1"}

    def start(self, *words: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Begin a command of lxgpu and do not wait for it; `before` is a program that starts it."""
        return subprocess.Popen(
            [*before, *PROGRAM, *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, limit_s: float = 150) -> Ran:
        """A command of lxgpu, to its end, whatever that is."""
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ran(process.returncode, out, err)

    def ok(self, *words: str) -> Ran:
        """A command that must succeed."""
        ran = self.run(*words)
        assert ran.status == 0, f"lxgpu {' '.join(words)}: {ran.status}\n{ran.err}"
        return ran

    def refused(self, status: int, *words: str) -> Ran:
        """A command that must end with this status, and say why."""
        ran = self.run(*words)
        assert (ran.status, ran.error != "") == (status, True), f"lxgpu {' '.join(words)}: {ran.status}\n{ran.err}"
        return ran

    def lxc(self, *words: str, check: bool = True) -> str:
        """The lxc program, behind lxgpu's back."""
        return lxc(self.lab, *words, check=check)

    def query(self, path: str) -> Any:
        """A question to LXD."""
        return json.loads(self.lxc("query", path))

    def sh(self, name: str, script: str, *, check: bool = True) -> str:
        """A script as root inside; what it prints."""
        return self.lxc("exec", name, "-T", "--", "sh", "-c", script, check=check).strip()

    def opens(self, name: str, *paths: str) -> list[int]:
        """What opening each path inside answers: 0 or the errno."""
        for _ in range(5):  # `lxc exec` sometimes hands over nothing of what was printed, and ends with 0 all the same
            said = self.lxc("exec", name, "-T", "--", "python3", "-c", OPEN, *paths).split()
            if said or not paths:
                break
        return [int(line) for line in said]

    def ssh(self, name: str, command: str) -> Ran:
        """Log in as the person, with the key that lxgpu made for them, and run a command."""
        door = next(row["ssh"] for row in self.run("ls", "-o", "json").items if row["name"] == name)
        key = self.lab.paths.state / "keys" / door["user"]
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
        where = ["-i", str(key), "-p", str(door["port"]), f"{door['user']}@{door['host']}"]
        argv = ["ssh", *(word for option in options for word in ("-o", option)), *where, command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return Ran(done.returncode, done.stdout, done.stderr)

    def init(self, name: str) -> int:
        """The host's pid of a container's init."""
        return int(self.query(f"/1.0/instances/{name}/state")["pid"])

    @property
    def door(self) -> Path:
        """Where the page's process speaks to the daemon."""
        return self.lab.paths.run / "page" / "api.sock"

    def socket_of(self, name: str) -> Path:
        """A container's own socket, on the host."""
        return self.lab.paths.state / "guests" / name / "api.sock"

    def daemon(self) -> int:
        """The pid of the lab's LXD."""
        return int((self.lab.paths.run / "lxd.pid").read_text())

    # ---- what is true

    def records(self) -> Records:
        """The inventory's rows."""
        with closing(open_readonly(self.lab.paths.state / "inventory.db")) as inventory:
            return inventory.read()

    def instances(self) -> dict[str, dict[str, Any]]:
        """All of LXD's instances by name, templates left out."""
        rows = self.query("/1.0/instances?recursion=1&all-projects=true")
        return {row["name"]: row for row in rows if not row["name"].startswith(TEMPLATE)}

    def volumes(self) -> set[str]:
        """The custom volumes of the pool."""
        return {str(path).rpartition("/")[2] for path in self.query("/1.0/storage-pools/default/volumes/custom")}

    def attached(self, rows: dict[str, dict[str, Any]] | None = None) -> dict[str, list[str]]:
        """Who has each card among its devices, by PCI address; `rows` as `instances` gives them."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, row in (self.instances() if rows is None else rows).items():
            for device in row["expanded_devices"].values():
                if device["type"] == "gpu":
                    found[device["pci"]].append(name)
        return found

    def cards_of(self, name: str) -> list[Card]:
        """The cards that a container has among its devices."""
        attached = self.attached()
        return [card for card in self.lab.gpus if name in attached.get(card.pci, ())]

    def card_of(self, name: str) -> Card:
        """The one card that a container has."""
        (card,) = self.cards_of(name)
        return card

    def slots(self) -> dict[str, tuple[str | None, str]]:
        """Holder and state of each card, as `lxgpu gpus` says."""
        rows = self.ok("gpus", "-o", "json").items
        return {row["uuid"]: (slot["holder"], slot["state"]) for row in rows for slot in row["slots"]}

    def world(self) -> dict[str, object]:
        """All that a refused command must leave as it was, in LXD and in the inventory."""
        rows = self.instances()
        return {
            "instances": {name: (row["config"], row["devices"], row["status"]) for name, row in rows.items()},
            "volumes": self.volumes(),
            "server": {k: v for k, v in self.query("/1.0")["config"].items() if k.startswith("user.")},
            "records": self.records(),
        }

    def settled(self, *, kept: Sequence[str] = (), quarantined: bool = False) -> None:
        """Nothing half done, nothing lost, nothing twice: LXD, the inventory and the machine say the same.

        `kept` are people whose container was deleted without `--purge`: their homes are there. `quarantined` lets a
        card that nobody holds be in quarantine.
        """
        found = self.run("inventory", "verify", "-o", "json")
        assert (found.status, found.items) == (0, []), found.err
        records, there = self.records(), self.instances()
        assert not [row for row in records.operations if row.live]
        assert sorted(row.name for row in records.instances) == sorted(there)
        people = {row.owner for row in records.instances if row.state != "trashed"}
        assert self.volumes() == {f"home-{name}" for name in {*people, *kept}}
        self._numbers_are_unique(there)
        attached = self.attached(there)
        assert all(len(names) == 1 for names in attached.values()), attached
        live = {row.slot.gpu: row for row in records.assignments if row.live}
        assert {uuid: row.instance for uuid, row in live.items()} == {
            card.uuid: attached[card.pci][0] for card in self.lab.gpus if card.pci in attached
        }
        assert {row.state for row in live.values()} <= {"active"}
        assert quarantined or not [row for row in records.slots if row.quarantine]
        self._nodes_are_right(there, attached)

    def _numbers_are_unique(self, there: dict[str, dict[str, Any]]) -> None:
        devices = [row["devices"] for row in there.values()]
        for device, key in (("eth0", "ipv4.address"), ("eth0", "hwaddr"), ("ssh", "listen")):
            counts = Counter(row[device][key] for row in devices if key in row.get(device, {}))
            assert all(count == 1 for count in counts.values()), counts

    def _nodes_are_right(self, there: dict[str, dict[str, Any]], attached: dict[str, list[str]]) -> None:
        """In each running container the nodes of its cards are there and open, and no others are there."""
        for name, row in there.items():
            if row["status"] == "Running":
                held = [card for card in self.lab.gpus if name in attached.get(card.pci, ())]
                wanted = {Path(node.path).name: 0 for card in held for node in card.nodes if "/dri/" in node.path}
                told = self.lxc("exec", name, "-T", "--", "python3", "-c", DRI).split()
                assert dict(zip(told[::2], map(int, told[1::2]), strict=True)) == wanted, name

    def held(self, name: str) -> bool:
        """Whether the inventory says that a container has any card."""
        return bool(self.records().held_by(name))

    # ---- a fresh start, without lxgpu

    def clean(self) -> None:
        """Take everything but images and templates away, inventory included, whatever state it is in."""
        for name in self.instances():
            self.lxc("delete", "--force", name, check=False)
        for name in self.volumes():
            self.lxc("storage", "volume", "delete", "default", name, check=False)
        config = self.query("/1.0")["config"]
        for key in [key for key in config if key.startswith("user.lxgpu.")]:
            self.lxc("config", "unset", key)
        for path in self.lab.paths.state.glob("inventory.db*"):
            path.unlink()
        for path in (self.lab.paths.state / "keys").glob("*"):
            path.unlink()
        for path in (self.lab.paths.state / "guests").glob("*"):
            shutil.rmtree(path)
        assert not self.instances()
        assert not self.volumes()


def house_for(lab: Lab) -> Iterator[House]:
    """The body of a fixture: a lab without containers before and after."""
    house = House(lab)
    house.clean()
    yield house
    house.clean()


def listens(path: Path) -> bool:
    """Whether somebody answers at a socket: the file of one who has ended stays."""
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect_ex(str(path)) == 0


def with_daemon(lab: Lab) -> Iterator[House]:
    """The body of a fixture: alice and bob have containers without cards, and a daemon serves them and the page."""
    for house in house_for(lab):
        house.ok("create", "alice")
        house.ok("create", "bob")
        process = house.start("daemon", "run")
        try:
            for path in (house.door, house.socket_of("alice"), house.socket_of("bob")):
                assert until(partial(listens, path), limit_s=60), path
            yield house
        finally:
            process.terminate()
            _, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err


def without_cards(house: House) -> None:
    """Alice and bob hold nothing and wait for nothing any more."""
    for row in house.records().reservations:
        house.run("reservation", "cancel", row.id, "--yes")
    for name in ("alice", "bob"):
        house.run("release", name, "--all", "--yes")
    assert until(lambda: not house.records().assignments, limit_s=60), house.records().assignments


def numbers_of(*cards: Card) -> dict[str, tuple[int, int]]:
    """Device numbers of all nodes of some cards, by a plain name."""
    return {Path(node.path).name: (node.major, node.minor) for card in cards for node in card.nodes}
