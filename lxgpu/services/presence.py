"""Whether anybody came to a booking, by the samples since it began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Sample
from lxgpu.services.site import Site

GAP_S = 150
"""Two looks further apart than this (or a quarter of the time to come) leave a gap in which anything may have been."""


def presence(
    site: Site, records: Records, *, no_show_s: float, now: datetime
) -> tuple[frozenset[str], dict[str, datetime]]:
    """The running bookings with a sign of use since they began, and from when on each other one was watched.

    A sign is a GPU process, an open login, or that nobody can tell. Watched means: a look at all of its cards at least
    every `GAP_S` until now.
    """
    waiting = {
        row.id: row
        for row in records.reservations
        if row.state is ReservationState.ACTIVE and row.kind is Kind.BOOKING and row.used_at is None and row.start
    }
    if not waiting:
        return frozenset(), {}
    by_card = {row.slot.gpu: row.reservation for row in records.assignments if row.live and row.reservation in waiting}
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in site.inventory.samples(since=min(row.start for row in waiting.values() if row.start)):
        row = waiting.get(by_card.get(sample.uuid) or "")
        if row is not None and row.start is not None and sample.at > row.start and sample.instance == row.instance:
            found[row.id].append(sample)
    shows = frozenset(name for name, samples in found.items() if any(map(_used, samples)))
    gap = timedelta(seconds=min(GAP_S, no_show_s / 4))
    watched = {name: _watched_since(row, found[name], now, gap) for name, row in waiting.items() if name not in shows}
    return shows, {name: at for name, at in watched.items() if at is not None}


def _watched_since(row: Reservation, samples: Iterable[Sample], now: datetime, gap: timedelta) -> datetime | None:
    """The beginning of the time without gaps that reaches until now; None: nobody looks at the moment."""
    times = sorted({sample.at for sample in samples})
    if not times or now - times[-1] > gap:
        return None
    since = times[-1]
    for at in reversed(times):
        if since - at > gap:
            return since
        since = at
    return row.start if row.start is not None and since - row.start <= gap else since


def _used(sample: Sample) -> bool:
    unknown = sample.processes is None or sample.login is None
    return unknown or bool(sample.processes) or bool(sample.login)
