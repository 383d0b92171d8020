"""The tick: look, decide, write, apply, confirm. The daemon, `daemon run --once`, commands and tests call this one.

A section that fails is that section's own failure: it is named in the answer, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.borrowing import PASSING
from lxgpu.model.gpu import Slot
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.model.usage import IdleVerdict
from lxgpu.policy.agenda import decide_tick
from lxgpu.policy.desk import Agenda
from lxgpu.policy.divisions import any_due
from lxgpu.policy.fairness import looks_back_s
from lxgpu.ports import Tx
from lxgpu.services import borrowed, observe, pausing
from lxgpu.services.banner import refresh_banner
from lxgpu.services.booting import note_boot
from lxgpu.services.carrying import advance_all, write_down
from lxgpu.services.clockset import ClockLook, last_set, settle_clock, watch_clock
from lxgpu.services.dividing import settle_divisions
from lxgpu.services.draining import close_due
from lxgpu.services.foresight import foreseen, renew
from lxgpu.services.guarding import guard_memory
from lxgpu.services.health import check_health
from lxgpu.services.holds import mirror_holds
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.mend import begin_mending
from lxgpu.services.notices import send_due
from lxgpu.services.oneversion import on_one_version
from lxgpu.services.presence import presence
from lxgpu.services.runs import end_abandoned
from lxgpu.services.sampling import judge_all, take_samples
from lxgpu.services.sections import FATAL, fault
from lxgpu.services.site import Site
from lxgpu.services.slicing import any_sliced, settle_slices
from lxgpu.services.ticked import Ticked
from lxgpu.services.timesup import end_in_time

ROUNDS = 8
"""How often one tick decides again because something moved: each round is a look at LXD."""
BUSY_S = 0.5
"""How soon to look again while an operation waits for something."""


@dataclass(slots=True)
class _Count:
    """What a tick did, and what went wrong in it."""

    alive: Callable[[], None]
    did: int = 0
    troubles: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    def trouble(self, part: str, text: str) -> None:
        """Keep what went wrong, once, and in which part."""
        self.failed.add(part)
        if text not in self.troubles:
            self.troubles.append(text)


def tick(site: Site, *, paused: bool = False) -> Ticked:
    """One pass over everything. `paused`: nothing new is taken from anybody.

    Errors: those of `ensure_identity`; `unavailable` when LXD does not answer.
    """
    paused = paused or pausing.paused(site.settings.run_dir) is not None  # a pause holds for commands too
    ensure_identity(site)
    count, agenda = _Count(site.alive), Agenda()
    clock = _clock(site, count)
    _section(count, "runs", partial(end_abandoned, site))
    for number in range(ROUNDS):
        site.alive()
        moved, troubles = advance_all(site)
        count.did += moved
        for text in troubles:
            count.trouble("operations", text)
        begun = site.clock.monotonic(), site.inventory.read()
        seen = observe.look(site, readings=True)
        if number == 0:
            _section(count, "boot", partial(note_boot, site, seen))
            _section(count, "watching", partial(take_samples, site, seen, site.inventory.read()))
            _section(count, "borrowing", partial(_borrowings, site, seen))
            _section(count, "memory", partial(guard_memory, site, seen, paused=paused or clock.jumped))
            _section(count, "health", partial(check_health, site, seen))
            _section(count, "forecast", partial(renew, site))
            _section(count, "drift", partial(begin_mending, site, seen))
            _section(count, "divisions", partial(_divisions, site, seen))
            _section(count, "drain", partial(close_due, site, seen))
            _section(count, "slices", partial(_slices, site, seen))
            if not clock.jumped:
                _section(count, "expiry", partial(end_in_time, site, seen, steady_s=clock.steady_s, paused=paused))
        site.alive()
        agenda = _decide(site, seen, begun, paused=paused or clock.jumped)
        count.did += len(agenda.notes)
        _section(count, "notices", partial(send_due, site))
        if agenda.empty and not moved:
            break
        for name in sorted({row.instance for row in agenda.rows if isinstance(row, Assignment) and row.live}):
            _section(count, "holds", partial(mirror_holds, site, name), about=f"holds of {name}")
    if count.did:
        _section(count, "promises", partial(mirror_promises, site))
    _section(count, "banners", partial(refresh_banner, site, seen=seen, trouble=partial(count.trouble, "banners")))
    if clock.jumped:
        _section(count, "clock", partial(settle_clock, site))
    next_at, failed = _next_at(site, agenda), tuple(sorted(count.failed))
    return Ticked(site.clock.now(), next_at, count.did, tuple(count.troubles), failed)


def _divisions(site: Site, seen: Observation) -> int:
    records = site.inventory.read()
    return settle_divisions(site, observe.of(site, seen, records)) if any_due(records, seen, site.policy()) else 0


def _slices(site: Site, seen: Observation) -> int:
    snapshot = observe.of(site, seen, site.inventory.read())
    return settle_slices(site, snapshot) if any_sliced(snapshot) else 0


def _borrowings(site: Site, seen: Observation) -> int:
    records = site.inventory.read()
    return borrowed.settle(site, observe.of(site, seen, records)) if records.borrowings else 0


def look(site: Site, seen: Observation, records: Records) -> Snapshot:
    """Everything that a decision of a tick looks at, judged by the samples there are."""
    snapshot = observe.of(site, seen, records, people=[row.owner for row in records.reservations])
    verdicts: Mapping[Slot, IdleVerdict] = judge_all(site, seen, records, snapshot.policy)
    past = site.inventory.closed_since(snapshot.now - timedelta(seconds=looks_back_s(snapshot.policy)))
    heard = {row.id: _heard(site, row) for row in records.assignments if row.state is AssignmentState.ACTIVE}
    no_show_s = snapshot.policy.rules.bookings.no_show_s
    told = foreseen(site.settings.run_dir, snapshot.policy, snapshot.now)
    shows, watched = presence(site, records, no_show_s=no_show_s, now=seen.at)
    return replace(
        snapshot,
        verdicts=verdicts,
        past=past,
        shows=shows,
        watched=watched,
        heard=heard,
        clock_set=last_set(site, snapshot.now),
        resumed_at=_resumed_at(site, snapshot),
        returns=told.returns,
        frees=told.frees,
    )


def _resumed_at(site: Site, snapshot: Snapshot) -> datetime | None:
    """When a pause ended last, as far back as it matters to a start that is waited for; None: it was long ago."""
    since = snapshot.now - timedelta(seconds=snapshot.policy.rules.bookings.give_up_after_s)
    if not any(row.pending and row.start and row.start <= since for row in snapshot.records.reservations):
        return None
    found = site.inventory.events(subject=site.host, since=since)
    return next((event.at for event in found if event.kind == "resumed"), None)


def _decide(site: Site, seen: Observation, begun: tuple[float, Records], *, paused: bool) -> Agenda:
    """Decide on what is there and write it, against one version of the inventory; `begun` is when the look began."""
    at, before = begun

    def act(tx: Tx, now: Snapshot) -> Agenda:
        site.watch.last = (at, now) if now.records.assignments == before.assignments else None
        agenda = decide_tick(now, paused=paused)
        if not agenda.empty:
            write_down(site, tx, now, agenda)
        return agenda

    return on_one_version(site, partial(look, site, seen), act)


def _heard(site: Site, row: Assignment) -> tuple[tuple[str, datetime], ...]:
    return tuple((notice.kind, notice.created_at) for notice in site.inventory.notices_about(row.id))


def _next_at(site: Site, agenda: Agenda) -> datetime | None:
    records = site.inventory.read()
    waits = any(row.live for row in records.operations) or any(row.state in PASSING for row in records.borrowings)
    soon = site.clock.now() + timedelta(seconds=BUSY_S)
    return min(soon, agenda.next_at) if waits and agenda.next_at else soon if waits else agenda.next_at


def _clock(site: Site, count: _Count) -> ClockLook:
    """What may be believed of the clock; nothing when that cannot be found out."""
    found = [ClockLook(jumped=True, steady_s=0.0)]
    _section(count, "clock", lambda: found.append(watch_clock(site)))
    return found[-1]


def _section(count: _Count, name: str, act: Callable[[], object], *, about: str = "") -> None:
    """One part; `about` is what is said when it fails, where that is more than its name."""
    count.alive()
    try:
        act()
    except LxgpuError as error:
        if error.code in FATAL:
            raise
        count.trouble(name, f"{about or name}: {error.brief}")
    except Exception as error:  # noqa: BLE001 -- one section's boundary: it is told, and stops no other
        count.trouble(name, f"{about or name}: {fault(about or name, error)}")
