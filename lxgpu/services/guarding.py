"""The memory guard: who holds more of a shared card's memory than their share is told, and so are the neighbours.

After a grace the newest of their programs get TERM, and later KILL: no more than it takes, and never anybody else's.
What is due is decided in `policy.guard`. Whole cards are never guarded.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.model.layout import whole
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Notice
from lxgpu.model.rules import MemoryGuard
from lxgpu.model.snapshot import Observation
from lxgpu.model.usage import Sample
from lxgpu.policy.guard import ENDED, NEIGHBOUR, OVER, Guard, Taker, judge, to_signal
from lxgpu.ports import Process
from lxgpu.services.overshare import Part, over_share, told_about
from lxgpu.services.site import Site
from lxgpu.services.watch import OVERLAP

RULE = "memory_guard"
TERM, KILL = "TERM", "KILL"


def guard_memory(site: Site, seen: Observation, *, paused: bool = False) -> int:
    """Tell, or end, what is due by this look; gives how many holders it concerned. `paused`: nothing is ended.

    Error `unavailable`: somebody's programs could not be looked at; all others were dealt with.
    """
    policy = site.policy()
    rule = policy.rules.sharing.memory_guard
    if rule is MemoryGuard.OFF:
        return 0
    ends, did, missed = rule is MemoryGuard.KILL, 0, None
    for part in over_share(seen, site.inventory.read(), policy):
        told = _told(site, part)
        due = _judge(site, part, told)
        try:
            if due is Guard.TELL:
                did += _tell(site, part, ends=ends)
            elif due is Guard.END and told is not None and ends and not paused:
                did += _end(site, part, told)
        except LxgpuError as error:
            if error.code != "unavailable":
                raise
            missed = missed or error
    if missed is not None:
        raise missed
    return did


def _told(site: Site, part: Part) -> Notice | None:
    """The last warning to the holder."""
    return next((one for one in reversed(site.inventory.notices_about(part.row.id)) if one.kind == OVER), None)


def _judge(site: Site, part: Part, told: Notice | None) -> Guard:
    """By the samples since the last warning, and what is seen now; in a long episode only new ones are read."""
    uuid, over = part.row.slot.gpu, site.watch.over
    before: tuple[Sample, ...] = ()
    if told is not None:
        name, looked_at = over.get(part.row.id, ("", part.at))
        since = looked_at - OVERLAP if name == told.id else told.created_at
        before = site.inventory.samples(since=since, uuid=uuid)
    due = judge(
        [*(one for one in before if one.at < part.at), Sample(part.at, uuid, None, part.used_bytes)],
        share_bytes=part.share_bytes,
        told=told,
        grace_s=part.rules.grace_s,
        now=site.clock.now(),
        not_before=site.watch.not_before,
    )
    if told is not None and due is Guard.END:
        over[part.row.id] = (told.id, part.at)
    return due


def _tell(site: Site, part: Part, *, ends: bool) -> bool:
    """Tell the holder and the neighbours, unless another process just did, or the part has changed hands."""
    now = site.clock.now()
    due_at = now + timedelta(seconds=part.rules.grace_s) if ends else None
    facts = {"used": part.used_bytes, "share": part.share_bytes, "due_at": due_at}
    with site.write() as tx:
        records = tx.records
        if not part.stands(records) or _judge(site, part, _told(site, part)) is not Guard.TELL:
            return False
        near, by = part.neighbours(records), {"by": part.row.instance, "due_at": due_at}
        tx.put(told_about(records, OVER, part.row, facts, now))
        tx.put(*(told_about(records, NEIGHBOUR, one, by, now) for one in near))
        more = {"due_at": due_at and due_at.isoformat(), "neighbours": sorted({one.instance for one in near})}
        tx.event(OVER, part.row.instance, rule=RULE, detail={**part.numbers, **more})
    return True


def _end(site: Site, part: Part, told: Notice) -> bool:
    """Signal to as many programs as it takes, and write it down."""
    held = {process.pid: process for process in _holders(site, part)}
    takers = [
        Taker(one.pid, held[one.pid].start_time, one.memory_bytes)
        for one in part.reading.processes or ()
        if one.pid in held and one.memory_bytes is not None
    ]
    events = site.inventory.events(subject=part.row.instance, since=told.created_at, kinds=[ENDED])
    terms, kills = to_signal(
        takers,
        share_bytes=part.share_bytes,
        termed=_signalled(events, part, TERM),
        killed=_signalled(events, part, KILL),
        term_wait_s=part.rules.term_wait_s,
        now=site.clock.now(),
    )
    termed = [held[one.pid] for one in terms if site.probe.signal(held[one.pid], signal.SIGTERM)]
    killed = [held[one.pid] for one in kills if site.probe.signal(held[one.pid], signal.SIGKILL)]
    if termed or killed:
        _write(site, part, termed, killed)
    return bool(termed or killed)


def _holders(site: Site, part: Part) -> tuple[Process, ...]:
    """The holder's own processes on the card; none when the part has changed hands, or the container is down."""
    name = part.row.instance
    first = site.engine.glimpse(name) if part.stands(site.inventory.read()) else None
    if first is None or first.init_pid is None:
        return ()
    try:
        found = site.probe.holders([first.init_pid], whole([part.gpu]), still=False)
    except LxgpuError as error:
        now = site.engine.glimpse(name)
        if error.code == "unavailable" and (now is None or now.init_pid != first.init_pid):
            return ()  # it went down just now, and everything in it
        raise
    return found[part.gpu.card].processes


def _write(site: Site, part: Part, termed: list[Process], killed: list[Process]) -> None:
    """The history has both; the holder is told of each TERM, which says what comes after it."""
    with site.write() as tx:
        for name, some in ((TERM, termed), (KILL, killed)):
            if some:
                tx.event(ENDED, part.row.instance, rule=RULE, detail={**part.numbers, "signal": name, **_listed(some)})
        if termed:
            names = ", ".join(dict.fromkeys(one.command or "a program" for one in termed))
            facts: Mapping[str, object] = {"names": names, "wait": part.rules.term_wait_s}
            facts = {"used": part.used_bytes, "share": part.share_bytes, **facts}
            tx.put(told_about(tx.records, ENDED, part.row, facts, site.clock.now()))


def _listed(some: Iterable[Process]) -> dict[str, object]:
    found = list(some)
    return {
        "commands": [one.command for one in found],
        "pids": [one.pid for one in found],
        "start_times": [one.start_time for one in found],
    }


def _signalled(events: Iterable[Event], part: Part, name: str) -> dict[tuple[int, int], datetime]:
    """Which programs of the part got that signal, and when first; events are given newest first."""
    found = {}
    for event in events:
        if event.detail.get("signal") == name and event.detail.get("gpu") == part.row.slot.gpu:
            pids, starts = event.detail.get("pids"), event.detail.get("start_times")
            if isinstance(pids, (list, tuple)) and isinstance(starts, (list, tuple)):
                found.update(dict.fromkeys(zip(map(int, pids), map(int, starts), strict=False), event.at))
    return found
