"""What the reader holds and has booked, from the daemon's own answer or, without it, from what it published; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from lxgpu.model.cardnames import lent_as, short_model, short_uuids
from lxgpu.model.layout import kind
from lxgpu.model.reservation import OPEN
from lxgpu.services.guestviews import GuestGpu, GuestKeep, GuestNotice, GuestReservation, GuestStatus
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.statusfile import Published

WARNINGS = frozenset({"warned", "idle_warning"})
_KEEP = "gpu keep"


@dataclass(frozen=True, slots=True)
class Held:
    """A card of the reader's; `due_at` is when it is taken, and `next` who gets it."""

    slot: str
    name: str
    model: str
    state: str
    until: datetime | None
    over: bool
    due_at: datetime | None
    next: str
    use: str
    use_since: datetime | None
    left_until: datetime | None
    reservation: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A booking, a request in the line, or a claim. `begun`: its start is history and stays.

    `asked` is the model as it was asked for, with the part of a card that is meant; `model` is told without it.
    """

    id: str
    kind: str
    gpus: int
    asked: str
    model: str
    state: str
    start: datetime | None
    until: datetime | None
    begun: bool
    duration_s: int | None
    position: int | None
    estimate: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class Mine:
    """All of it. `live` is False when the daemon did not tell, and this is what it published last.

    `refused` is why, in its words, if it did answer.
    """

    name: str
    held: tuple[Held, ...]
    wishes: tuple[Wish, ...]
    keeps: tuple[GuestKeep, ...]
    notices: tuple[GuestNotice, ...]
    live: bool
    refused: str = ""

    @property
    def warned(self) -> tuple[Held, ...]:
        """The cards that are about to be taken."""
        return tuple(card for card in self.held if card.state == "warned")

    @property
    def warnings(self) -> tuple[GuestNotice, ...]:
        """What was said of cards that are about to be taken, or may be since they lie idle."""
        return tuple(one for one in self.notices if one.kind in WARNINGS)

    @property
    def others(self) -> tuple[GuestNotice, ...]:
        """What else was said."""
        return tuple(one for one in self.notices if one.kind not in WARNINGS)

    @property
    def keepable(self) -> bool:
        """Whether `keep` would call a warning off: the warning says so where it would."""
        return any(_KEEP in one.text for one in self.warnings)


def mine_of(found: Published | None, status: GuestStatus | None, name: str, *, refused: str = "") -> Mine:
    """The reader's things: as the daemon says, else those that are published and not over."""
    if status is not None:
        return Mine(
            name=name,
            held=tuple(_told(gpu, status.at) for gpu in status.gpus),
            wishes=tuple(_asked(row, status.at) for row in status.reservations),
            keeps=status.keeps,
            notices=status.notices,
            live=True,
        )
    rows = [row for row in found.reservations if row.instance == name and row.state in OPEN] if found else []
    return Mine(
        name=name,
        held=tuple(_seen(found, name)) if found else (),
        wishes=tuple(_published(row, found.written_at) for row in rows) if found else (),
        keeps=(),
        notices=(),
        live=False,
        refused=refused,
    )


def _told(gpu: GuestGpu, now: datetime) -> Held:
    return Held(
        slot=gpu.slot,
        name=gpu.name,
        model=short_model(gpu.model or "GPU"),
        state=gpu.state,
        until=gpu.until,
        over=gpu.until is not None and gpu.until <= now,
        due_at=gpu.due_at,
        next=gpu.next or "",
        use=gpu.use or "",
        use_since=gpu.use_since,
        left_until=gpu.left_until,
        reservation=gpu.reservation or "",
    )


def _asked(row: GuestReservation, now: datetime) -> Wish:
    return Wish(
        id=row.id,
        kind=row.kind,
        gpus=row.gpus,
        asked=row.model,
        model=short_model(kind(row.model)[0]),
        state=row.state,
        start=row.start,
        until=row.until,
        begun=row.start is not None and row.start <= now,
        duration_s=row.duration_s,
        position=row.position,
        estimate=row.estimate,
        note=row.note,
    )


def _seen(found: Published, name: str) -> Iterable[Held]:
    shorts = short_uuids([*(gpu.uuid for gpu in found.gpus), *(slot.slot for gpu in found.gpus for slot in gpu.slots)])
    for gpu in found.gpus:
        for slot in gpu.slots:
            if slot.holder == name and slot.state != "foreign":
                until = slot.lease_until
                yield Held(
                    slot=slot.slot,
                    name=shorts[slot.slot],
                    model=short_model(lent_as(gpu.model or "GPU", slot.slot)),
                    state=slot.state or "unknown",
                    until=until,
                    over=until is not None and until <= found.written_at,
                    due_at=None,
                    next="",
                    use=gpu.verdict or "",
                    use_since=None,
                    left_until=None,
                    reservation=slot.reservation or "",
                )


def _published(row: ReservationView, now: datetime) -> Wish:
    length = (row.end - row.start).total_seconds() if row.start and row.end else None
    return Wish(
        id=row.id,
        kind=row.kind,
        gpus=row.gpus,
        asked=row.model,
        model=short_model(kind(row.model)[0]),
        state=row.state,
        start=row.start,
        until=row.end,
        begun=row.start is not None and row.start <= now,
        duration_s=None if length is None else int(length),
        position=row.position,
        estimate=row.estimate,
        note=row.note or "",
    )
