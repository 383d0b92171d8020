"""How long the daemon takes to answer `gpu`: a full lab in an inventory's file, with a stand-in for LXD, which is slow.

The daemon's side is a process of its own. It has both kinds of sockets, and is as busy beside them as a daemon is: each
second a turn is decided, and somebody writes into the inventory, so that nothing that was read stays true for longer.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.paging import BOOKINGS, CALLERS, CARDS, CONTAINERS, EACH, GOAL_MS, MODEL
from benchmarks.table import Figure
from lxgpu.api.app import guest_apps
from lxgpu.api.page import page_app
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.config.settings import load_settings
from lxgpu.drivers.system import SystemClock
from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import Assignment, AssignmentState, Card
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Instance, InstanceState, Person, Power, Sighting
from lxgpu.model.quota import Policy, Terms
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.usage import Sample
from lxgpu.policy.agenda import decide_tick
from lxgpu.ports import Inventory
from lxgpu.services import observe
from lxgpu.services.guest import Guests
from lxgpu.services.links import link
from lxgpu.services.sampling import judge_all
from lxgpu.services.site import Site
from lxgpu.services.visits import Visits

LXD_S = 0.1
"""So long LXD takes for its list of instances, and for that of cards."""
EVERY_S = 1.0
PAGE = "page"
NAMES = [f"person{number:03}" for number in range(CONTAINERS)]
UUIDS = [f"GPU-{number:08x}-1111-2222-3333-444444444444" for number in range(CARDS)]
GPUS = tuple(
    Gpu(uuid, f"0000:{number:02x}:00.0", MODEL, "gpu1", (), 80 * 2**30, 0) for number, uuid in enumerate(UUIDS)
)


def asking() -> list[Figure]:
    """What eight wait for `GET /v1/status`: for all containers in turn, by the page and over their sockets."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as (process, sessions):
        page = [(Path(folder) / PAGE, session) for session in sessions]
        own = [(Path(folder) / name, "") for name in NAMES]
        for place, session in (page[0], own[0]):
            _ask(place / "api.sock", session)  # what is loaded at the first question of all
        names = ("status at the page's door, p95", "status on containers' sockets, p95")
        return [_timed(name, ways, process) for name, ways in zip(names, (page, own), strict=True)]


def _timed(name: str, ways: Sequence[tuple[Path, str]], process: int) -> Figure:
    """The 95th percentile of what callers wait, several at once; the ways, with the session to show, in turn."""
    spent: list[float] = []

    def call(ways: Sequence[tuple[Path, str]]) -> None:
        for number in range(EACH):
            folder, session = ways[number % len(ways)]
            begun = time.perf_counter()
            told = _ask(folder / "api.sock", session)
            spent.append(time.perf_counter() - begun)
            if not told.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{name}: {told[:300]!r}")

    before = _cpu_s(process)
    callers = [threading.Thread(target=call, args=(ways[at::CALLERS],)) for at in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if len(spent) < CALLERS * EACH:
        raise SystemExit(f"{name}: not everybody was answered")
    ordered, cpu_s = sorted(spent), (_cpu_s(process) - before) / len(spent)
    middle, late = (1000 * ordered[int(len(ordered) * share)] for share in (0.5, 0.95))
    beside = f"median {middle:.1f} ms, {1000 * cpu_s:.1f} ms of CPU each; {len(spent):,} answers to {CALLERS} at once"
    beside = f"{beside}; {CONTAINERS} containers, {CARDS} cards, {BOOKINGS:,} bookings"
    return Figure(f"the daemon: {name}", round(late, 1), "ms", GOAL_MS, beside=beside)


def _cpu_s(process: int) -> float:
    """What a process has computed so far, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ask(path: Path, session: str) -> bytes:
    shown = f"Authorization: Bearer {session}\r\n" if session else ""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(str(path))
        line.sendall(f"GET /v1/status HTTP/1.1\r\nHost: x\r\n{shown}\r\n".encode())
        told = b""
        while part := line.recv(65536):
            told += part
    return told


@contextmanager
def _served(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """The daemon's side: its process, and a session at the page for each container."""
    argv = [sys.executable, "-m", "benchmarks.asking", str(folder)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        yield process.pid, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)


def serve(folder: Path) -> None:
    """Be that side: print the sessions, and go on until the end."""
    inventory = open_inventory(folder / "inventory.db")
    now = datetime.now(UTC)
    _fill(inventory, now)
    site = _site(folder, inventory)
    guests, visits = Guests(lambda: site, lambda: None), Visits(lambda: site)
    for name in (*NAMES, PAGE):
        (folder / name).mkdir()
    app = page_app(visits, guests)
    door = Sockets(lambda _: app, lambda name: str(folder / name), Bounds(connections=64, pace_s=0.0))
    own = Sockets(guest_apps(guests), lambda name: str(folder / name))
    door.follow([PAGE])
    own.follow(NAMES)
    _turn(site)
    sessions = [visits.enter(link(site, name).url.partition("#")[2]).session for name in NAMES]
    sys.stdout.write(json.dumps(sessions) + "\n")
    sys.stdout.flush()
    other = open_inventory(folder / "inventory.db")
    while True:
        time.sleep(EVERY_S)
        _turn(site)
        with other.write(actor="bench", now=datetime.now(UTC)) as tx:
            row = tx.records.reservations[-1]
            tx.put(replace(row, note=f"written at {time.monotonic()}"))


def _turn(site: Site) -> None:
    """As `services.tick`: look, decide, leave behind what was seen."""
    at, snapshot = site.clock.monotonic(), observe.snapshot(site)
    snapshot = replace(snapshot, verdicts=judge_all(site, snapshot.seen, snapshot.records, snapshot.policy))
    decide_tick(snapshot)
    site.watch.last = at, snapshot


class _Lxd:
    """`ports.Engine`, as far as it is looked at: it takes its time, which is not the processor's."""

    def __init__(self) -> None:
        held = {name: {f"gpu-{at}": _device(GPUS[at])} for at, name in enumerate(NAMES[:CARDS])}
        self._seen = tuple(
            Sighting(
                name,
                "default",
                Power.RUNNING,
                {"volatile.uuid": name, "user.lxgpu.uuid": name},
                held.get(name, {}),
                held.get(name, {}),
            )
            for name in NAMES
        )

    def gpus(self) -> tuple[Gpu, ...]:
        """All cards."""
        time.sleep(LXD_S)
        return GPUS

    def instances(self, *, with_state: bool) -> tuple[Sighting, ...]:
        """All containers."""
        time.sleep(LXD_S)
        return () if with_state else self._seen


def _device(gpu: Gpu) -> dict[str, str]:
    return {"type": "gpu", "gputype": "physical", "pci": gpu.pci}


def _site(folder: Path, inventory: Inventory) -> Site:
    """What is not asked for here is not there."""
    settings = replace(load_settings({}, {}), state_dir=folder, run_dir=folder)
    rules, clock = Policy(timezone="Asia/Shanghai", defaults=Terms(limit=8)), SystemClock()
    there: dict[str, Any] = {
        "engine": _Lxd(),
        "probe": SimpleNamespace(card_stamp=lambda: "", boot_id=lambda: "boot"),
        "board": SimpleNamespace(read=lambda _name, _file: ""),
        "policy": lambda: rules,
        "unix_groups": lambda _person: frozenset[str](),
        "say": lambda _text: None,
    }
    fields = ["login", "texts", "notify", "parker", "brake", "locks", "kernel_log", "profile", "nvidia"]
    fields += ["guest", "host_uid"]
    return Site(
        host="gpu1", inventory=inventory, clock=clock, settings=settings, actor="bench",
        **there, **cast("dict[str, Any]", dict.fromkeys(fields)),
    )  # fmt: skip


def _fill(inventory: Inventory, now: datetime) -> None:
    """Every card is lent and worked on, and bookings stand for the next week."""
    before = now - timedelta(days=1)
    with inventory.write(actor="bench", now=before) as tx:
        tx.put(*(Person(name, 20000 + at, 22000 + at, before) for at, name in enumerate(NAMES)))
        tx.put(*(Instance(name, name, "gpu1", InstanceState.READY, before, uuid=name) for name in NAMES))
        tx.put(*(Card(gpu.uuid, "gpu1", gpu.pci, gpu.model, gpu.memory_bytes, now) for gpu in GPUS))
        tx.put(*(_held(at, now, before) for at in range(CARDS)))
        tx.put(*(_booking(number, now, before) for number in range(BOOKINGS)))
    looks = [now - timedelta(seconds=10 * back) for back in range(400)]
    inventory.add_samples(
        [Sample(at, uuid, 80, 2**30, 1, NAMES[card]) for card, uuid in enumerate(UUIDS) for at in looks]
    )


def _held(at: int, now: datetime, before: datetime) -> Assignment:
    until = now + timedelta(hours=1 + at)
    return Assignment(
        f"a{at}", Slot(UUIDS[at]), NAMES[at], AssignmentState.ACTIVE, before, "normal", since=before, until=until
    )


def _booking(number: int, now: datetime, before: datetime) -> Reservation:
    name, start = NAMES[number % CONTAINERS], now + timedelta(hours=80, minutes=10 * number)
    return Reservation(
        f"r{number:08x}", name, name, Kind.BOOKING, 1, ReservationState.SCHEDULED, before, 36000,
        class_name="normal", host="gpu1", pool=MODEL, start=start, until=start + timedelta(hours=10), note="night",
    )  # fmt: skip


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
