"""The daemon: one turn after another, each section on its own, and what it does for all to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from lxgpu.errors import LxgpuError
from lxgpu.instants import format_utc
from lxgpu.model.operation import Event
from lxgpu.ports import Clock, Engine, Progress
from lxgpu.services.daemonfigures import Figures
from lxgpu.services.loop import EVERY_S, Next
from lxgpu.services.policywatch import PolicyNews, PolicyWatch
from lxgpu.services.sections import Sections
from lxgpu.services.silent import SilentEngine
from lxgpu.services.site import Site
from lxgpu.services.statusfile import DaemonView, PauseView, PolicyState, Published
from lxgpu.services.ticked import Tick, Ticked

PUBLISH_S = 30.0
"""status.json is written at least so often."""
LATE_S = 20.0
"""A turn that takes longer is told to everybody while it lasts."""
_OUT = frozenset({"unavailable", "outcome_unknown"})
"""What a tick says while LXD does not answer."""
_MOST_EVENTS = 1000
TICK, POLICY, STATUS, HISTORY, ALERTS = "tick", "policy", "status.json", "history", "alerts"
Publish = Callable[[Site, DaemonView], Published | None]
"""Looks, writes status.json, and gives what was written."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the daemon has done for it at each turn.

    `alive` after every turn, with a line for people; `told` hears every new line of history; `others` are further
    sections by name (the guest sockets), each called with the site; they give what troubles them while they go on.
    `late` publishes a view without looking at anything, while a turn takes long; `alerts` tells the admins of what was
    published.
    """

    alive: Callable[[str], None] = lambda _text: None
    told: Callable[[Event], None] = lambda _event: None
    others: Mapping[str, Callable[[Site], Iterable[str]]] = field(default_factory=dict)
    late: Callable[[DaemonView], None] = lambda _view: None
    alerts: Callable[[Site, Published], None] = lambda _site, _found: None


class Daemon:
    """What a loop turns. Nothing that fails here ends it, but for the errors in `sections.FATAL`."""

    def __init__(
        self,
        *,
        make_site: Callable[[], Site],
        tick: Tick,
        policy: PolicyWatch,
        pause: Callable[[], PauseView | None],
        publish: Publish,
        clock: Clock,
        say: Progress,
        pid: int,
        every_s: Callable[[], float] = lambda: EVERY_S,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._make_site = make_site
        self._tick = tick
        self._policy = policy
        self._pause = pause
        self._publish = publish
        self._clock = clock
        self._say = say
        self._every_s = every_s
        self._callbacks = callbacks or Callbacks()
        self._sections = Sections(clock.monotonic, say)
        self._site: Site | None = None
        self._reload = False
        self._news: list[PolicyNews] = []
        self._history = HistoryTail(since=clock.now())
        self._troubled: dict[str, tuple[str, ...]] = {}
        self._published: tuple[object, ...] = ()
        self._published_at: float | None = None
        self._begun: tuple[float, datetime] | None = None
        self._late_at: float | None = None
        self._silent: LxgpuError | None = None
        self._figures = Figures()
        self.view = DaemonView(running=True, pid=pid, started_at=clock.now())

    def reload(self) -> None:
        """Read the policy file at the next turn, whether it looks changed or not."""
        self._reload = True

    def turn(self) -> Next:
        """One turn.

        Raises:
            LxgpuError: one of `sections.FATAL`: this process must not change anything any more.
        """
        self._begun, self._late_at = (self._clock.monotonic(), self._clock.now()), None
        try:
            return self._turn()
        finally:
            self._begun = None
            self._forget_late()

    def watch(self) -> None:
        """While a turn takes long, publish that it does; for another thread, every few seconds."""
        begun, seconds = self._begun, self._clock.monotonic()
        if begun is None or seconds - begun[0] < LATE_S:
            return
        if self._late_at is not None and seconds - self._late_at < PUBLISH_S:
            return
        self._late_at = seconds
        last = f"the last one ended at {format_utc(self.view.ticked_at)}" if self.view.ticked_at else "none ended yet"
        text = f"{TICK}: a look has been going on since {format_utc(begun[1])}; {last}"
        self._callbacks.late(replace(self.view, troubles=(*self.view.troubles, text)))

    def _forget_late(self) -> None:
        """After a turn that was told of while it lasted: what is published then speaks of one that is over."""
        if self._late_at is not None:
            self._published_at = None

    def _turn(self) -> Next:
        self._sections.run(POLICY, self._look_at_policy, at_once=self._reload)
        paused = self._paused()
        ticked = self._sections.run(TICK, lambda: self._ticked(paused=paused is not None), at_once=True)
        self._remember(ticked, paused)
        site = self._site
        if site is not None:
            self._sections.run(HISTORY, lambda: self._history.tell(site, self._told))
            for name, do in self._callbacks.others.items():
                self._other(site, name, do)
            changed = ticked is not None and ticked.did > 0
            shown = self._sections.run(STATUS, lambda: self._show(site, changed=changed))
            if shown is not None:
                self._sections.run(ALERTS, lambda: self._callbacks.alerts(site, shown))
        self._callbacks.alive(self._line())
        return Next(ticked.next_at) if ticked is not None else Next(in_s=self._sections.left_s(TICK))

    def end(self) -> None:
        """Publish that nobody is at work any more."""
        self.view = replace(self.view, running=False, pid=None, next_at=None)
        site = self._site
        if site is not None:
            self._sections.run(STATUS, lambda: self._publish(site, self.view), at_once=True)

    def _ticked(self, *, paused: bool) -> Ticked:
        try:
            site = self._site = self._site or self._make_site()
            self._write_news(site)
            ticked = self._timed(site, paused=paused)
            self._silent = None
        except LxgpuError as error:
            self._silent = error if error.code in _OUT else None
            if error.code == "inventory_lost":  # the file was replaced (a backup, say): open what is there now
                self._site = None
            raise
        return ticked

    def _timed(self, site: Site, *, paused: bool) -> Ticked:
        begun = self._clock.monotonic()
        try:
            ticked = self._tick(site, paused=paused)
        finally:
            self._figures.ticked(self._clock.monotonic() - begun)
        self._figures.failed(ticked.failed)
        return ticked

    def _told(self, event: Event) -> None:
        self._figures.event(event.kind)
        if isinstance(latency := event.detail.get("latency_s"), (int, float)):
            self._figures.yielded(float(latency))
        self._callbacks.told(event)

    def _other(self, site: Site, name: str, do: Callable[[Site], Iterable[str]]) -> None:
        """A further section; what troubles it while it goes on is told with the troubles of the next tick."""
        found = self._sections.run(name, lambda: tuple(do(site)))
        if found is not None:
            self._troubled[name] = found

    def _look_at_policy(self) -> None:
        anew, self._reload = self._reload, False
        news = self._policy.look(anew=anew)
        if news is not None:
            self._say(f"{news.kind.replace('_', ' ')}: {news.text}")
            self._news.append(news)

    def _write_news(self, site: Site) -> None:
        """The news of the policy file, into the history; kept until they are there."""
        if self._news:
            with site.write() as tx:
                for news in self._news:
                    tx.event(news.kind, site.host, rule=site.settings.policy.name, detail=news.detail)
            self._news.clear()

    def _paused(self) -> PauseView | None:
        paused, before = self._pause(), self.view.paused
        if paused != before:
            self._say(f"paused by {paused.who}: {paused.why}" if paused else "goes on")
        return paused

    def _remember(self, ticked: Ticked | None, paused: PauseView | None) -> None:
        if ticked is not None:
            others = (f"{name}: {text}" for name, found in self._troubled.items() for text in found)
            self._sections.tell((*ticked.troubles, *others))
            latest = self._clock.now() + timedelta(seconds=self._every_s())
            due = min(ticked.next_at, latest) if ticked.next_at else latest
            self.view = replace(self.view, ticked_at=ticked.at, next_at=due)
        else:
            self.view = replace(self.view, next_at=self._clock.now() + timedelta(seconds=self._sections.left_s(TICK)))
        policy = PolicyState(ok=not self._policy.error, error=self._policy.error or None)
        self.view = replace(self.view, troubles=self._sections.troubles, paused=paused, policy=policy)

    def _show(self, site: Site, *, changed: bool) -> Published | None:
        """Publish what is new, and now and then what is not; None where nothing was."""
        seconds, key = self._clock.monotonic(), self._key(site)
        fresh = self._published_at is not None and seconds - self._published_at < PUBLISH_S
        if fresh and not changed and self._published == key:
            return None
        # Where LXD has just not answered it is not waited for once more.
        silent = cast("Engine", SilentEngine(self._silent)) if self._silent else None
        self.view = replace(self.view, figures=self._figures.view(failures=self._sections.failures))
        found = self._publish(replace(site, engine=silent) if silent else site, self.view)
        self._published, self._published_at = key, seconds
        return found

    def _key(self, site: Site) -> tuple[object, ...]:
        """What makes status.json another one, apart from the passing of time and of samples."""
        return (site.inventory.read().version, self.view.troubles, self.view.paused, self.view.policy)

    def _line(self) -> str:
        """How it goes, in one line."""
        if self.view.troubles:
            return "; ".join(self.view.troubles)
        if self.view.paused:
            return f"paused by {self.view.paused.who}: {self.view.paused.why}"
        return f"all is well; last tick {self.view.ticked_at:%H:%M:%S} UTC" if self.view.ticked_at else "starting"


class HistoryTail:
    """New lines of the inventory's history, oldest first, each told once, whoever wrote them."""

    def __init__(self, *, since: datetime) -> None:
        self._since = since
        self._last: int | None = None

    def tell(self, site: Site, told: Callable[[Event], None]) -> None:
        """Tell what is new since the last time; at first what happened since the beginning."""
        newest = next((event.id or 0 for event in site.inventory.events(limit=1)), 0)
        if self._last is None:  # by time for once; from then on by number, since a clock may be set back
            for event in reversed(site.inventory.events(since=self._since, limit=_MOST_EVENTS)):
                told(event)
                newest = max(newest, event.id or 0)
            self._last = newest
        self._last = min(self._last, newest)  # less when an older copy of the inventory was put in its place
        while found := site.inventory.events_after(self._last, limit=_MOST_EVENTS):
            for event in found:
                told(event)
                self._last = event.id or self._last
