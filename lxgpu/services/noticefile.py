"""The file inside that keeps what was said to a container, and which of it still holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Use

if TYPE_CHECKING:
    from lxgpu.services.guestviews import GuestGpu
    from lxgpu.services.site import Site

FILE = "notice"
KEPT = 20
"""How many notices the file keeps, newest first."""
FRESH = timedelta(hours=1)
"""So long `gpu` shows what was said and is no warning."""
SHOWN = 3
"""How many notices `gpu` shows."""
_TIMES = {"booking_starts": "start", "booking_ends": "until", "lease_ends": "until"}
"""Kinds that announce a time of a booking or a lease, and the fact that is it: they hold while that is its time."""
_WARNING = "warned"
_IDLE = "idle_warning"
_ENTRY = re.compile(r"^(?==== )", re.MULTILINE)
_HEAD = re.compile(r"=== (\S+ \S+) (\w+) \[([^]\n]+)\]\n")


@dataclass(frozen=True, slots=True)
class Said:
    """One notice as it stands in the file."""

    kind: str
    at: datetime
    text: str


def write_notice(site: Site, row: Notice, text: str) -> str:
    """Put a notice at the top of its container's file, once; gives what became of it, in words."""
    try:
        old = [part for part in _ENTRY.split(site.board.read(row.instance, FILE)) if part]
        at = row.created_at.astimezone(site.policy().zone).isoformat(sep=" ", timespec="minutes")
        entry = f"=== {at} {row.kind} [{row.id}]\n{text}\n\n"
        others = [part for part in old if f" [{row.id}]\n" not in part]
        site.board.write(row.instance, FILE, "".join([entry, *others][:KEPT]))
    except LxgpuError as error:
        return "; ".join([error.brief, *error.why])
    return "written"


def read_notices(site: Site, records: Records, name: str) -> tuple[Said, ...]:
    """What was said to a container, newest first, without what it was told of times that are others now.

    Nothing where its file cannot be read.
    """
    try:
        parts = _ENTRY.split(site.board.read(name, FILE))
    except LxgpuError:
        return ()
    return _holding(site, records, name, [said for part in parts if (said := _said(part)) is not None])


def drop_void(site: Site, records: Records, name: str) -> bool:
    """Take out of a container's file what announced a time that is another now; False where all of it holds.

    Raises:
        LxgpuError: the file cannot be read or written.
    """
    parts = [part for part in _ENTRY.split(site.board.read(name, FILE)) if part]
    said = {part: one for part in parts if (one := _said(part)) is not None}
    void = set(said.values()) - set(_holding(site, records, name, list(said.values())))
    left = [part for part in parts if said.get(part) not in void]
    return len(left) < len(parts) and site.board.write(name, FILE, "".join(left))


def _holding(site: Site, records: Records, name: str, said: Sequence[Said]) -> tuple[Said, ...]:
    """Those that announce no time, or one that still is that of a booking or a card of the container."""
    if not any(one.kind in _TIMES for one in said):
        return tuple(said)
    bookings = [row for row in records.reservations if row.instance == name and row.open]
    rows: list[Reservation | Assignment] = [*bookings, *records.held_by(name)]
    true = {(told.kind, _minute(told.created_at)) for row in rows for told in _announced(site, row)}
    return tuple(one for one in said if one.kind not in _TIMES or (one.kind, one.at.astimezone(UTC)) in true)


def _announced(site: Site, row: Reservation | Assignment) -> Iterator[Notice]:
    """What was told of a row's times as they are now. Of several cards at once one tells; all have its minute."""
    for notice in site.inventory.notices_about(row.id):
        fact = _TIMES.get(notice.kind)
        at = notice.facts.get(fact) if fact else None
        if fact and at is not None and datetime.fromisoformat(str(at)) == getattr(row, fact, None):
            yield notice


def _minute(at: datetime) -> datetime:
    """A time as it stands in the file."""
    return at.astimezone(UTC).replace(second=0, microsecond=0)


def _said(entry: str) -> Said | None:
    head = _HEAD.match(entry)
    if head is None:
        return None
    try:
        at = datetime.fromisoformat(head[1])
    except ValueError:
        return None
    return None if at.tzinfo is None else Said(head[2], at, entry[head.end() :].strip("\n"))


def still_true(said: Sequence[Said], gpus: Iterable[GuestGpu], *, now: datetime) -> tuple[Said, ...]:
    """What of it holds: the present warnings first, then what was said within the last hour; a few at most.

    A warning holds while a card that it names is to be taken, one about idle cards while such a card lies idle.
    """
    held = list(gpus)
    present: list[Said] = []
    for gpu in held:
        named = [one for one in said if one.kind == _WARNING and gpu.name in one.text]
        if gpu.state == AssignmentState.WARNED and named:
            present.append(named[0])
    idle = [gpu.name for gpu in held if gpu.use == Use.IDLE and gpu.state == AssignmentState.ACTIVE]
    fresh = [one for one in said if now - one.at <= FRESH and one.kind != _WARNING]
    news = [one for one in fresh if one.kind != _IDLE or any(name in one.text for name in idle)]
    return tuple(dict.fromkeys([*present, *news]))[:SHOWN]
