"""A lab for the page: a site of fakes, the daemon's own page door over it, its turns in a thread, and the page itself.

Time is the machine's own, moved on where a test says so. The page is the real process, started as `lxgpu web`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dealings import GRACE, give, policy, wish, work
from fakes.site import make_gpus, make_site, newcomer

from lxgpu.api.page import page_app
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.config.settings import WebSettings
from lxgpu.model.gpu import Gpu
from lxgpu.model.quota import Policy
from lxgpu.model.request import GpuRequest
from lxgpu.services import links, statusfile, visits
from lxgpu.services.cardviews import UseView
from lxgpu.services.guest import Guests
from lxgpu.services.lending import attach
from lxgpu.services.publish import published
from lxgpu.services.reserve import reserve
from lxgpu.services.site import Site
from lxgpu.services.statusfile import DaemonView, Published
from lxgpu.services.tick import tick

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 20.0


class RunningClock:
    """`ports.Clock`: the machine's time; `sleep` takes none and moves this clock on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.ahead_s += seconds


class PageWorld:
    """The lab. `site` is the daemon's; what a test does to it, it does in `with world.still:`."""

    def __init__(self, folder: Path, site: Site) -> None:
        site.settings.state_dir.mkdir(parents=True, exist_ok=True)
        site.settings.run_dir.mkdir(parents=True, exist_ok=True)
        self.folder, self.site = folder, site
        self.still = threading.RLock()
        self.change: Callable[[Published], Published] = lambda found: found
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        door = folder / "run" / "page"
        door.mkdir()
        app = page_app(visits.Visits(lambda: self.site), Guests(lambda: self.site, self._wake.set))
        bounds = Bounds(connections=64, pace_s=0.0, threads=4, thread_name="page")
        self.door = Sockets(lambda _: app, lambda _: str(door), bounds)

    def open(self) -> None:
        """The daemon begins: its door is open and its turns are made."""
        assert self.door.follow(["page"]) == {}
        self.turn()
        self._ended.clear()
        self._thread = threading.Thread(target=self._turns, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The daemon is gone."""
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(LIMIT_S)
        self.door.close()

    def turn(self) -> None:
        """One turn of the daemon, and what it publishes."""
        with self.still:
            tick(self.site)
            self.publish()

    def publish(self, *, age_s: float = 0.0) -> None:
        """Write status.json, as if that had been done so long ago."""
        now = self.site.clock.now()
        daemon = DaemonView(running=True, pid=1, started_at=now, ticked_at=now)
        found = self.change(published(self.site, daemon))
        statusfile.write(
            self.site.settings.state_dir, replace(found, written_at=found.written_at - timedelta(seconds=age_s))
        )

    def go_on(self, seconds: float) -> None:
        """Let so much time pass, a turn each second."""
        for _ in range(int(seconds)):
            with self.still:
                self.site.clock.sleep(1.0)
                self.turn()

    def way_in(self, name: str = "") -> str:
        """The path of a one-time link, its secret behind the #."""
        with self.still:
            made = links.link(self.site, name)
        return "/" + made.url.split("/", 3)[3]

    def invitation(self, person: str) -> str:
        """The path of an invitation."""
        with self.still:
            return "/" + links.invite(self.site, person).url.split("/", 3)[3]

    def urgent(self) -> None:
        """Carol needs two of the cards that alice holds, and alice is warned."""
        with self.still:
            reserve(self.site, wish("carol", gpus=4, model="NVIDIA RTX 3090", class_name="urgent"), begin=False)
            self.turn()

    def _turns(self) -> None:
        while not self._ended.is_set():
            self._wake.wait(1.0)
            self._wake.clear()
            if not self._ended.is_set():
                self.turn()


class Page:
    """The page's process; `url` is how browsers call it, behind a proxy. `metrics` is where Prometheus asks."""

    def __init__(self, settings_of: PageWorld, *, url: str = "") -> None:
        chosen = settings_of.site.settings
        given = {
            "LXGPU_STATE_DIR": str(chosen.state_dir),
            "LXGPU_RUN_DIR": str(chosen.run_dir),
            "LXGPU_CONFIG": "",
            "LXGPU_WEB_METRICS": "127.0.0.1:0",
            "PYTHONPATH": str(ROOT),
        } | ({"LXGPU_WEB_URL": url} if url else {})
        self.log = settings_of.folder / "page.log"
        argv = [sys.executable, "-m", "lxgpu", "web", "--listen", "127.0.0.1", "--port", "0"]
        with self.log.open("wb") as log:
            self.env = {**os.environ, **given}
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=self.env, cwd="/")
        self.url = f"http://127.0.0.1:{self._said(r', port ([0-9]+)[)]')}"
        self.metrics = self._said(r"metrics are at (http://[0-9.:]+)/metrics")

    def _said(self, pattern: str) -> str:
        """What it says when it is there."""
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends and self.process.poll() is None:
            if found := re.search(pattern, self.log.read_text()):
                return found[1]
            time.sleep(0.02)
        self.stop()
        raise AssertionError(f"the page did not start: {self.log.read_text()}")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def small_lab(folder: Path, *, grace_s: int = GRACE, busy: bool = True) -> PageWorld:
    """Four cards of two models: alice works on two of low class (unless not `busy`), bob and carol hold none."""
    cards = [*make_gpus(2), *make_gpus(4, model="NVIDIA A100-SXM4-80GB")[2:]]
    rules = policy(no_show_s=3600)
    if busy:  # for as long as a test takes on a slow machine
        rules = replace(rules, rules=replace(rules.rules, idle=replace(rules.rules.idle, window_s=86400)))
    classes = {name: replace(one, grace_s=grace_s) for name, one in rules.classes.items()}
    site = make_site(folder, gpus=cards, policy=replace(rules, classes=classes), clock=RunningClock())
    site = replace(site, settings=replace(site.settings, web=WebSettings()))
    for name in ("alice", "bob", "carol"):
        newcomer(site, name)
    give(site, "alice", 2, class_name="low")
    for gpu in cards[:2] if busy else ():
        work(site, "alice", gpu)
    return PageWorld(folder, site)


def lab_in_use(folder: Path) -> PageWorld:
    """Eight cards of two models with something of everything: for pictures, and for looking at every kind of thing."""
    small, large = make_gpus(4), make_gpus(8, model="NVIDIA A100-SXM4-80GB")[4:]
    large = [replace(gpu, memory_bytes=80 * 2**30) for gpu in large]
    site = make_site(folder, gpus=[*small, *large], policy=_calm(), clock=RunningClock())
    site = replace(site, settings=replace(site.settings, web=WebSettings()))
    for name in ("alice", "bob", "carol", "ann", "ben"):
        newcomer(site, name)
    _lend(site, "alice", small[:2], hours=9)
    _lend(site, "bob", large[:2], hours=30)
    _lend(site, "ann", large[2:3], hours=3)
    now = site.clock.now().replace(minute=0, second=0, microsecond=0)
    fast, plain = "NVIDIA A100-SXM4-80GB", "NVIDIA RTX 3090"
    for name, gpus, model, begins, hours, note in (
        ("carol", 2, plain, 16, 8, "camera-ready runs"),
        ("ben", 4, plain, 40, 12, ""),
        ("ann", 1, fast, 20, 30, "ablation"),
        ("alice", 2, fast, 52, 10, "final evaluation"),
        ("alice", 2, plain, 66, 8, ""),
        ("carol", 3, fast, 90, 24, "pretraining"),
        ("bob", 1, plain, 100, 36, ""),
    ):
        at = now + timedelta(hours=begins)
        reserve(site, wish(name, gpus=gpus, seconds=hours * 3600, at=at, model=model, note=note), begin=False)
    reserve(site, wish("ben", gpus=4, seconds=6 * 3600, model=fast), begin=False)
    world = PageWorld(folder, site)
    world.change = _at_work
    return world


def _calm() -> Policy:
    """Nobody yields but to who is urgent, and slowly, so that pictures stay as they are."""
    rules = policy(no_show_s=86400)
    usual = replace(rules.classes["normal"], grace_s=300)
    urgent = replace(usual, name="urgent", priority=100, who=("carol",))
    quiet = replace(rules.rules, idle=replace(rules.rules.idle, window_s=86400))
    return replace(rules, timezone="Asia/Shanghai", classes={"normal": usual, "urgent": urgent}, rules=quiet)


def _lend(site: Site, name: str, cards: list[Gpu], *, hours: float) -> None:
    for gpu in cards:
        request = GpuRequest(instance=name, owner=name, more=1, uuids=(gpu.uuid,))
        attach(site, name, number=1, more=True, request=request, lease_s=int(hours * 3600))
        work(site, name, gpu)


def _at_work(found: Published) -> Published:
    """The same with what NVML would tell: numbers of cards, their use, and a fault."""
    cards, use = [], {}
    for number, gpu in enumerate(found.gpus):
        held = any(slot.holder for slot in gpu.slots)
        now = (97, 4, 0, 0, 88, 91, 63, 0)[number % 8]
        line = tuple(_figure(number, half, now) if held else 0.0 for half in range(48))
        use[gpu.uuid] = UseView(found.written_at - timedelta(days=1), 1800, line)
        memory = int((gpu.memory_bytes or 0) * (0.7 if now > 50 else 0.25)) if held else 2 * 2**20
        verdict = ("busy" if now > 1 else "idle") if held else gpu.verdict
        cards.append(
            replace(
                gpu, index=number, utilization_percent=now if held else 0, memory_used_bytes=memory, verdict=verdict
            )
        )
    return replace(found, gpus=tuple(cards), use=use)


def _figure(number: int, half: int, now: int) -> float | None:
    """A day's work that looks like one: it began at some hour, with pauses; always the same."""
    begun = 6 + (number * 7) % 20
    if half < begun:
        return None if half < number else 0.0
    wave = (half * 37 + number * 11) % 23
    return float(max(0, min(100, now + wave - 12 if half % 9 else now // 3)))
