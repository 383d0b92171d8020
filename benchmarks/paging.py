"""The page of a full lab: how long its answers take while what it shows changes, and how much a first visit loads."""

from __future__ import annotations

import gzip
import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.table import Figure
from lxgpu.services import statusfile
from lxgpu.services.calendarview import Bar, BarKind, Calendar, Line
from lxgpu.services.cardviews import GpuView, SlotView, UseView
from lxgpu.services.headline import GpuCount
from lxgpu.services.overview import PoolView, StatusView
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.statusfile import DaemonView, Published
from lxgpu.services.views import InstanceView, SshView

CONTAINERS, CARDS, BOOKINGS = 200, 64, 1000
CALLERS, EACH = 8, 125
"""So many at once ask, each so often: requests are bounded, whatever the machine."""
EVERY_S = 1.0
"""So often the daemon publishes meanwhile; ten times as often as it does."""
GOAL_MS, GOAL_KB = 50, 150
MODEL = "NVIDIA A100-SXM4-80GB"


def page() -> list[Figure]:
    """The slowest of twenty answers for what people see first, and the bytes of a first visit."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as where:
        parts = {
            "the page: cards, p95": "/part/cards",
            "the page: whole, p95": "/",
            "the page: week of the calendar, p95": "/part/calendar?view=week",
        }
        rows = [_timed(name, where, path) for name, path in parts.items()]
        whole, files = first_visit(where)
    beside = f"{len(files)} files, of which the page itself {files['/'] / 1000:.0f} kB"
    return [*rows, Figure("the page: first visit", round(whole / 1000, 1), "kB", GOAL_KB, beside=beside)]


def full_lab(now: datetime) -> Published:
    """A lab of 200 containers, 64 cards, all lent, and 1,000 bookings in the next week."""
    people = [f"person{number:03}" for number in range(CONTAINERS)]
    uuids = [f"GPU-{number:08x}-1111-2222-3333-444444444444" for number in range(CARDS)]
    gpus = tuple(
        GpuView(
            uuid=uuid, index=number, pci=f"0000:{number:02x}:00.0", model=MODEL, host="gpu1", memory_bytes=80 * 2**30,
            mode="exclusive", health="ok",
            slots=(SlotView(uuid, people[number], "active", now + timedelta(hours=number)),),
            utilization_percent=(number * 7 + now.second) % 100, memory_used_bytes=number * 2**30, verdict="busy",
            sampled_at=now,
        )
        for number, uuid in enumerate(uuids)
    )  # fmt: skip
    bookings = tuple(
        ReservationView(
            id=f"r{number:08x}", instance=people[number % CONTAINERS], kind="booking", gpus=1 + number % 4, model=MODEL,
            host="gpu1", start=now + timedelta(minutes=10 * number), end=now + timedelta(minutes=10 * number + 600),
            state="scheduled", class_="normal", note="an experiment",
        )
        for number in range(BOOKINGS)
    )  # fmt: skip
    held = [
        Line(gpu.uuid, gpu.uuid, (Bar(now, gpu.slots[0].lease_until, people[at], BarKind.HELD),))
        for at, gpu in enumerate(gpus)
    ]
    lanes = [
        Line(None, MODEL, tuple(
            Bar(row.start or now, row.end, f"{row.instance} {row.gpus} GPUs", BarKind.BOOKED, row.id)
            for row in bookings[lane::60]
        ))
        for lane in range(60)
    ]  # fmt: skip
    use = tuple(float((step * 13) % 100) for step in range(48))
    return Published(
        written_at=now,
        headline="",
        status=StatusView("gpu1", now, "550.1", GpuCount(CARDS, 0, 0, now + timedelta(hours=1)), PoolView("default")),
        daemon=DaemonView(running=True, pid=1, started_at=now, ticked_at=now),
        instances=tuple(
            InstanceView(name, name, "gpu1", "running", ssh=SshView("gpu1", 22000, name)) for name in people
        ),
        gpus=gpus,
        reservations=bookings,
        calendar=Calendar(now, now, now + timedelta(days=7), (*held, *lanes)),
        timezone="Asia/Shanghai",
        use={uuid: UseView(now - timedelta(days=1), 1800, use) for uuid in uuids},
        public=True,
    )


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The page of such a lab, as `host:port`; what it shows changes all the time."""
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(EVERY_S):
            statusfile.write(folder, full_lab(datetime.now(UTC)))

    statusfile.write(folder, full_lab(datetime.now(UTC)))
    env = {**os.environ, "LXGPU_STATE_DIR": str(folder), "LXGPU_RUN_DIR": str(folder), "LXGPU_CONFIG": ""}
    env["LXGPU_WEB_METRICS"] = "off"
    argv = [sys.executable, "-m", "lxgpu", "web", "--listen", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=env)
    thread = threading.Thread(target=publish)
    thread.start()
    try:
        assert process.stderr is not None  # noqa: S101 -- it was asked for
        found = re.search(r"port (\d+)\)", process.stderr.readline())
        if found is None:
            raise SystemExit("the page does not start")
        yield f"127.0.0.1:{found[1]}"
    finally:
        ended.set()
        thread.join()
        process.terminate()
        process.wait(10)


def _timed(name: str, where: str, path: str) -> Figure:
    """The 95th percentile of what callers wait, several at once over connections that stay open."""
    spent: list[float] = []

    def call() -> None:
        link = http.client.HTTPConnection(where, timeout=20)
        for _ in range(EACH):
            begun = time.perf_counter()
            link.request("GET", path)
            answer = link.getresponse()
            answer.read()
            spent.append(time.perf_counter() - begun)
            if answer.status != 200:  # noqa: PLR2004 -- OK
                raise SystemExit(f"{path}: status {answer.status}")
        link.close()

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    ordered = sorted(spent)
    middle, late = (1000 * ordered[int(len(ordered) * share)] for share in (0.5, 0.95))
    beside = (
        f"median {middle:.1f} ms; {len(spent):,} answers to {CALLERS} at once; {CONTAINERS} containers, {CARDS} cards"
    )
    return Figure(name, round(late, 1), "ms", GOAL_MS, beside=f"{beside}, {BOOKINGS:,} bookings")


def first_visit(where: str) -> tuple[int, dict[str, int]]:
    """The bytes of the page and of every file that it names, as a browser gets them."""
    told = {"/": _size(where, "/")}
    text = gzip.decompress(told["/"]) if told["/"][:2] == b"\x1f\x8b" else told["/"]
    for path in dict.fromkeys(re.findall(r'(?:src|href)="(/static/[^"]+)"', text.decode())):
        told[path] = _size(where, path)
    sizes = {path: len(body) for path, body in told.items()}
    return sum(sizes.values()), sizes


def _size(where: str, path: str) -> bytes:
    link = http.client.HTTPConnection(where, timeout=20)
    link.request("GET", path, headers={"Accept-Encoding": "gzip"})
    body = link.getresponse().read()
    link.close()
    return body
