"""The real daemon, put together: what `wiring` is for commands, for the one program that stays.

One lock, the signals, systemd, a clock whose waits end when the process is to end, the policy watched, the loop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lxgpu import hosts, wiring
from lxgpu.errors import LxgpuError
from lxgpu.services import pausing, statusfile
from lxgpu.services.statusfile import DaemonView, PauseView, Published

if TYPE_CHECKING:
    from lxgpu.drivers.systemd import ServiceManager
    from lxgpu.model.operation import Event
    from lxgpu.model.quota import Policy
    from lxgpu.ports import Clock, Progress
    from lxgpu.services.alerts import Alerts
    from lxgpu.services.policywatch import PolicyWatch
    from lxgpu.services.site import Site
    from lxgpu.services.ticked import Ticked

ACTOR = "daemon"
_GROUPS_S = 60.0
"""So long the Unix groups of people are believed without asking again."""
_SIGNS_S = 1.0
"""Signs of life to systemd are so far apart at least: waits may be short, and many."""
_LEFT = "the journal has it, and the next start goes on from there"
_WATCH_S = 5.0
"""So often it is looked whether a turn takes long."""
_OVERDUE_S = 60.0
"""Published are ticks of the last 40 s; where the last one is older than this, none came to its end."""
_ONCE_S = 120.0
"""A single tick waits so long for those of other hosts."""
_LOOKS = 10
_SHORTEST_S = 1.0
"""A window of idleness sees so many turns, if that leaves so much time between two."""


def run(say: Progress, told: Callable[[Event], None]) -> None:
    """Be the daemon until a signal says otherwise.

    Args:
        say: hears what is done, and each trouble once.
        told: hears every new line of history.

    Raises:
        LxgpuError: `daemon_runs`; `bad_file` and others of the settings and the policy at the start; `superseded` and
            its like when another inventory took over.
    """
    from lxgpu.api.parts import doors  # noqa: PLC0415
    from lxgpu.drivers.only_one import OnlyOne  # noqa: PLC0415
    from lxgpu.drivers.stopping import Stop, StoppableClock, StoppedError  # noqa: PLC0415
    from lxgpu.drivers.system import SystemClock  # noqa: PLC0415
    from lxgpu.drivers.systemd import ServiceManager  # noqa: PLC0415
    from lxgpu.drivers.wake import Wake  # noqa: PLC0415
    from lxgpu.sentry import Keeper  # noqa: PLC0415
    from lxgpu.services.alerts import Alerts  # noqa: PLC0415
    from lxgpu.services.alertsight import sight  # noqa: PLC0415
    from lxgpu.services.daemon import Callbacks, Daemon  # noqa: PLC0415
    from lxgpu.services.loop import loop  # noqa: PLC0415
    from lxgpu.services.sidebyside import SideBySide  # noqa: PLC0415
    from lxgpu.services.tick import tick  # noqa: PLC0415

    chosen, manager, stop = wiring.settings(), ServiceManager(), Stop()
    only = OnlyOne(chosen.run_dir, now=datetime.now(UTC))
    watch = _policy_watch()
    statusfile.open_to_readers(chosen.state_dir)
    wake = Wake(chosen.run_dir, also=stop.handle)
    alive = _signs_of_life(manager)
    clock, alerts, keeper = StoppableClock(stop, alive), Alerts(), Keeper(wake.poke, say)

    beside = hosts.Beside()

    def pace() -> float:
        return every_s(watch.current())

    daemon = Daemon(
        make_site=lambda: replace(_site(say, clock, watch.current), alive=alive),
        tick=SideBySide(tick, beside, poke=wake.poke) if hosts.several() else tick,
        policy=watch,
        pause=lambda: pausing.paused(chosen.run_dir),
        publish=publish,
        clock=clock,
        say=say,
        pid=os.getpid(),
        every_s=pace,
        callbacks=Callbacks(
            alive=lambda line: manager.tell("WATCHDOG=1", f"STATUS={line}"),
            told=told,
            others={
                "borrowing": keeper.turn,
                **doors(wake.poke, guest_folder=wiring.guest_folder, page_folder=wiring.page_folder),
                **_doors_of(beside, wake.poke),
            },
            late=partial(_late, alerts, lambda: _site(say, SystemClock(), watch.current)),
            alerts=lambda site, found: alerts.look(site, sight(found, site.policy().rules)),
        ),
    )

    def reload() -> None:
        daemon.reload()
        wake.poke()

    stop.on_signals(wake=wake.handle, reload=reload)
    stop.end_in_time(
        lambda: say("a step did not end in time; the journal has it, and the next start goes on from there")
    )
    ended = threading.Event()
    threading.Thread(target=_watching, args=(daemon.watch, ended, say), name="watch", daemon=True).start()
    manager.tell("READY=1", "STATUS=starting")
    say(f"the daemon is at work, process {os.getpid()}")
    keeper.begin()
    try:
        loop(daemon.turn, clock=clock, wait=wake.wait, stopping=lambda: stop.asked, every_s=pace)
        manager.tell("STOPPING=1")
        daemon.end()
    except StoppedError:
        say(f"stopped in the midst of a step; {_LEFT}")
    finally:
        keeper.end()
        ended.set()
        only.close()
    say("the daemon has ended")


def once(say: Progress, told: Callable[[Event], None] = lambda _event: None) -> Ticked:
    """One tick of the same kind, and status.json after it; beside a daemon it is that daemon's to write.

    `told` hears each line of history that came about meanwhile.
    """
    from lxgpu.drivers.system import SystemClock  # noqa: PLC0415
    from lxgpu.services.sidebyside import SideBySide  # noqa: PLC0415
    from lxgpu.services.tick import tick  # noqa: PLC0415

    chosen, watch = wiring.settings(), _policy_watch()
    paused = pausing.paused(chosen.run_dir)
    site = _site(say, SystemClock(), watch.current)
    before = next((event.id or 0 for event in site.inventory.events(limit=1)), 0)
    every = SideBySide(tick, hosts.Beside(), patience_s=_ONCE_S) if hosts.several() else tick
    ticked = every(site, paused=paused is not None)
    for event in site.inventory.events_after(before):
        told(event)
    if not status().running:
        statusfile.open_to_readers(chosen.state_dir)
        policy = statusfile.PolicyState(ok=not watch.error, error=watch.error or None)
        view = DaemonView(running=False, ticked_at=ticked.at, troubles=ticked.troubles, paused=paused, policy=policy)
        publish(site, view)
    return ticked


def _doors_of(beside: hosts.Beside, poke: Callable[[], None]) -> dict[str, Callable[[Site], tuple[str, ...]]]:
    """The sockets of the containers of other hosts, a section a host."""
    from lxgpu.api.parts import Doors  # noqa: PLC0415

    def serve(number: int, doors: Doors, site: Site) -> tuple[str, ...]:
        return doors.guests(beside(site)[number])

    return {
        f"guest sockets of {name}": partial(serve, number, Doors(poke, wiring.guest_folder, wiring.page_folder))
        for number, name in enumerate(wiring.lending()[1:])
    }


def every_s(policy: Policy) -> float:
    """The longest time between two turns, by what the policy calls idle."""
    from lxgpu.services.loop import EVERY_S  # noqa: PLC0415

    return min(max(policy.rules.idle.window_s / _LOOKS, _SHORTEST_S), EVERY_S)


def publish(site: Site, daemon: DaemonView) -> Published:
    """Look, and write status.json; gives what was written."""
    from lxgpu.services.publish import published as put_together  # noqa: PLC0415

    found = put_together(site, daemon, hosts.places()[1:])
    statusfile.write(site.settings.state_dir, found)
    return found


def _late(alerts: Alerts, make_site: Callable[[], Site], view: DaemonView) -> None:
    """Write into status.json that a turn takes long; what was seen stays what was seen last, and as old as it is.

    The admins are told by another site than that of the turn, which has its own in use.
    """
    from lxgpu.services.alertsight import late_sight  # noqa: PLC0415

    folder = wiring.settings().state_dir
    found = statusfile.read(folder)
    if found is not None:
        statusfile.write(folder, replace(found, daemon=view))
    late = late_sight(view, wiring.host_name(), datetime.now(UTC))
    if late.alerts:
        alerts.look(make_site(), late)


def _watching(watch: Callable[[], None], ended: threading.Event, say: Progress) -> None:
    """Have the turns watched until the daemon ends; what fails in it is said when it begins."""
    told = ""
    while not ended.wait(_WATCH_S):
        try:
            watch()
        except LxgpuError as error:
            if error.brief != told:
                say(f"a turn takes long, which cannot be told: {error.brief}")
            told = error.brief
        else:
            told = ""


def published() -> Published | None:
    """What a daemon published last; None when none ever did."""
    return statusfile.read(wiring.settings().state_dir)


def poke() -> bool:
    """Let the daemon's next turn begin at once; False when there is none."""
    from lxgpu.drivers.wake import poke as wake  # noqa: PLC0415

    return wake(wiring.settings().run_dir)


def status() -> DaemonView:
    """The daemon: running or not, and what it published last."""
    from lxgpu.drivers.only_one import runner  # noqa: PLC0415

    found = published()
    view = found.daemon if found else DaemonView(running=False)
    paused = pausing.paused(wiring.settings().run_dir)
    try:
        now = runner(wiring.settings().run_dir)
    except LxgpuError:  # only root can tell for sure; whoever cannot goes by the age of what it published
        running = found is not None and not found.stale(datetime.now(UTC))
        return _overdue(replace(view, running=running, paused=paused))
    if now is None:
        return replace(view, running=False, pid=None, next_at=None, paused=paused)
    if view.pid != now.pid:  # it has just begun, and published nothing yet
        view = DaemonView(running=True)
    return _overdue(replace(view, running=True, pid=now.pid, started_at=now.started_at, paused=paused))


def _overdue(view: DaemonView) -> DaemonView:
    """The view; of a daemon that runs and has not looked for long it says since when."""
    last = view.ticked_at or view.started_at
    if not view.running or last is None or (datetime.now(UTC) - last).total_seconds() < _OVERDUE_S:
        return view
    from lxgpu.instants import format_utc  # noqa: PLC0415 -- only then

    text = f"no look has come to its end since {format_utc(last)}"
    return replace(view, troubles=(*view.troubles, text))


def pause(reason: str) -> PauseView:
    """Let the daemon take nothing new; see `pausing.pause`."""
    view = PauseView(who=wiring.actor(), why=reason, when=datetime.now(UTC).replace(microsecond=0))
    pausing.pause(wiring.settings().run_dir, view)
    poke()
    return view


def resume() -> PauseView | None:
    """Let it go on; the pause that ended."""
    found = pausing.resume(wiring.settings().run_dir)
    poke()
    return found


def note(say: Progress, kind: str, detail: Mapping[str, object]) -> None:
    """A line of history about the daemon; where it cannot be written, that is said, and what was done stands."""
    try:
        site = wiring.site(say)
        with site.write() as tx:
            tx.event(kind, site.host, detail=detail)
    except LxgpuError as error:
        say(f"not in the history: {error.brief}")


def _policy_watch() -> PolicyWatch:
    from lxgpu.services.policywatch import PolicyWatch  # noqa: PLC0415

    chosen = wiring.settings()
    return PolicyWatch(chosen.policy, kept=chosen.state_dir / "policy.json")


def _site(say: Progress, clock: Clock, policy: Callable[[], Policy]) -> Site:
    """The site of a process that stays: what may change meanwhile is asked for again."""
    from lxgpu.drivers.system import FileLocks  # noqa: PLC0415

    return replace(
        wiring.site(say),
        clock=clock,
        locks=FileLocks(wiring.settings().run_dir / "locks", clock),
        policy=policy,
        profile=wiring.profile,
        unix_groups=_groups(),
        actor=ACTOR,
    )


def _groups() -> Callable[[str], frozenset[str]]:
    asked_at = time.monotonic()

    def of(person: str) -> frozenset[str]:
        nonlocal asked_at
        if time.monotonic() - asked_at > _GROUPS_S:
            wiring.unix_groups.cache_clear()
            asked_at = time.monotonic()
        return wiring.unix_groups(person)

    return of


def _signs_of_life(manager: ServiceManager) -> Callable[[], None]:
    last, lock = time.monotonic(), threading.Lock()

    def alive() -> None:
        nonlocal last
        with lock:
            if time.monotonic() - last < _SIGNS_S:
                return
            last = time.monotonic()
        manager.tell("WATCHDOG=1")

    return alive
