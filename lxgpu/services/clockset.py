"""When somebody sets the wall clock: people's grace and the deadlines of steps run on by the clock that never jumps.

Every tick, whoever makes it, compares both clocks with what the tick before noted in the run directory, which lasts as
long as the boot. The tick that finds a jump takes nothing; what is due moves along with the clock, once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from lxgpu.errors import cannot_write
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Operation
from lxgpu.model.snapshot import ClockSet
from lxgpu.services.revive import revive
from lxgpu.services.site import Site

FILE = "clock.json"
LOCK = "/clock"
"""No container can be called so; whoever holds it compares the clocks."""
LOCK_WAIT_S = 5.0
JUMP_S = 5.0
"""So far the wall clock may move against the other one between two ticks; more, and somebody has set it."""
EVENT = "clock_set"
INSTANTS = ("down_since", "hook_until", "park_until")
"""What steps note of the wall clock among their operation's arguments."""
_LOOKED_AT = 50
"""So many of the host's newest events are looked at: the answer costs the same however long history is."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Both clocks at a tick of a boot.

    `steady_since` is the other clock's time since which nobody set this one, `set_at` when it was set last, `unsettled`
    that no tick came to its end since then.
    """

    boot: str
    seconds: float
    wall: datetime
    steady_since: float
    set_at: datetime | None = None
    unsettled: bool = False


@dataclass(frozen=True, slots=True)
class ClockLook:
    """What a tick may believe of the clock.

    `jumped`: it was set since the last tick that came to its end. For `steady_s` it has been watched and nobody set it.
    """

    jumped: bool
    steady_s: float


def watch_clock(site: Site) -> ClockLook:
    """Compare the clocks with those of the tick before; after a jump move along what is due.

    Samples from before a jump do not count any more, for this process either. While another process compares, this one
    believes nothing.
    """
    path = site.settings.run_dir / FILE
    with site.locks.hold(LOCK, wait_s=LOCK_WAIT_S) as held:
        if not held:
            return ClockLook(jumped=True, steady_s=0.0)
        now = Clocks(site.probe.boot_id(), site.clock.monotonic(), site.clock.now(), site.clock.monotonic())
        before = _noted(path)
        moved_s = 0.0
        if before is not None and before.boot == now.boot and before.seconds <= now.seconds:
            now = replace(now, steady_since=before.steady_since, set_at=before.set_at, unsettled=before.unsettled)
            moved_s = (now.wall - before.wall).total_seconds() - (now.seconds - before.seconds)
            moved_s -= _followed_s(site, before)
        if before is not None and abs(moved_s) > JUMP_S:
            site.say(f"the wall clock was moved by {moved_s:.0f} s: nothing is taken in this tick")
            follow_clock(site, moved_s, since=_name(before))
            now = replace(now, steady_since=now.seconds, set_at=now.wall, unsettled=True)
        _note(path, now)
        site.watch.not_before = now.set_at or site.watch.not_before
    return ClockLook(now.unsettled, now.seconds - now.steady_since)


def settle_clock(site: Site) -> None:
    """A tick that took nothing has come to its end: the next one may again, if nobody sets the clock meanwhile."""
    path = site.settings.run_dir / FILE
    with site.locks.hold(LOCK, wait_s=LOCK_WAIT_S) as held:
        noted = _noted(path)
        if held and noted is not None:
            _note(path, replace(noted, unsettled=False))


def follow_clock(site: Site, moved_s: float, *, since: str = "") -> int:
    """Move what is due by as much as the wall clock was moved (seconds, negative: back); gives how many rows.

    `since` names the look at the clocks from which on it was moved by so much.
    """
    moved = timedelta(seconds=moved_s)
    with site.write() as tx:
        warned = [row for row in tx.records.assignments if row.state is AssignmentState.WARNED and row.due_at]
        waiting = [row for row in tx.records.operations if row.live]
        tx.put(*(replace(row, due_at=row.due_at + moved) for row in warned if row.due_at))
        tx.put(*(_moved(row, moved) for row in waiting))
        site.watch.not_before = site.clock.now()  # what was seen before is of another time: idleness begins anew
        tx.event(EVENT, site.host, detail={"moved_s": round(moved_s, 1), "graces": len(warned), "since": since})
    return len(warned) + len(waiting)


def last_set(site: Site, now: datetime) -> ClockSet | None:
    """When the clock was set last, if that is less than a window of idleness ago."""
    window = timedelta(seconds=site.policy().rules.idle.window_s)
    found = site.inventory.events(subject=site.host, limit=_LOOKED_AT)
    event = next((one for one in found if one.kind == EVENT), None)
    if event is None or not event.at <= now < event.at + window:
        return None
    return ClockSet(event.at - timedelta(seconds=float(str(event.detail["moved_s"]))), event.at)


def _moved(row: Operation, by: timedelta) -> Operation:
    """An operation whose deadlines are as far away as they were."""
    args: Mapping[str, object] = {name: _shifted(row.args[name], by) for name in INSTANTS if row.args.get(name)}
    return replace(row, due_at=row.due_at and row.due_at + by, args={**row.args, **args})


def _shifted(value: object, by: timedelta) -> object:
    with suppress(ValueError):
        return (datetime.fromisoformat(str(value)) + by).isoformat()
    return value


def _followed_s(site: Site, before: Clocks) -> float:
    """How far things were moved along since a look already, by a tick that could not note it afterwards."""
    events = site.inventory.events(subject=site.host, limit=_LOOKED_AT)
    mine = (event for event in events if event.kind == EVENT and event.detail.get("since") == _name(before))
    return sum(float(str(event.detail["moved_s"])) for event in mine)


def _name(look: Clocks) -> str:
    return f"{look.boot}:{look.seconds}:{look.wall.isoformat()}"


def _noted(path: Path) -> Clocks | None:
    """What the tick before noted; None when there was none in this boot, or nobody can read it."""
    try:
        return revive(Clocks, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _note(path: Path, now: Clocks) -> None:
    aside = path.with_name(f".{FILE}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        aside.write_text(json.dumps(asdict(now), default=str), encoding="utf-8")  # to the microsecond, unlike `plain`
        aside.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
