"""What a container is told of itself over its own socket: values with fields, and the same in lines for people; pure.

Unknown is None, never zero. Times are UTC in the fields and the lab's in the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lxgpu.figures import format_duration
from lxgpu.model.assignment import ATTACHED, Assignment, AssignmentState
from lxgpu.model.cardnames import lent_as, n_asked, n_held, short_model, short_uuids
from lxgpu.model.gpu import Slot
from lxgpu.model.layout import in_parts
from lxgpu.model.reservation import Keep, Kind, Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import IdleVerdict, Use
from lxgpu.services.borrowwords import borrowed_by
from lxgpu.services.headline import GpuCount, headline
from lxgpu.services.noticefile import Said, still_true
from lxgpu.services.reservationviews import InLine, likely

Show = Callable[[datetime], str]


@dataclass(frozen=True, slots=True)
class GuestGpu:
    """A card that the container holds.

    `until` is the end of its time, `due_at` when it is taken (a warned one), `next` the container that it is promised
    to. `use` is busy, idle or unknown, None where nobody judged; `use_since` and `left_until` belong to it: since when,
    and until when an idle one is left alone all the same. Of a part `uuid` is the card's, `slot` and `model` its own.
    `name` is how `lxgpu gpus` and notices call it.
    """

    slot: str
    uuid: str
    pci: str | None
    model: str | None
    state: str
    since: datetime | None
    until: datetime | None
    due_at: datetime | None = None
    reservation: str | None = None
    next: str | None = None
    use: str | None = None
    use_since: datetime | None = None
    left_until: datetime | None = None
    use_why: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class GuestReservation:
    """A booking, a request in the queue, or a claim of this container.

    One that waits has its `position` in the line (1 is next) and an `estimate` of when it may begin, no promise
    (`foreseen`: it rests on a forecast).
    """

    id: str
    kind: str
    gpus: int
    model: str
    state: str
    created_at: datetime
    duration_s: int
    start: datetime | None
    until: datetime | None
    dies: datetime | None
    position: int | None = None
    estimate: datetime | None = None
    foreseen: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class GuestKeep:
    """A `keep` that still counts."""

    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class GuestNotice:
    """Something that was said to this container and still holds."""

    kind: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class GuestStatus:
    """What `gpu` shows. `free` is None while LXD does not answer; `lines` say all of it, in the zone `timezone`."""

    instance: str
    at: datetime
    headline: str
    total: int
    free: int | None
    next_at: datetime | None
    gpus: tuple[GuestGpu, ...]
    reservations: tuple[GuestReservation, ...]
    keeps: tuple[GuestKeep, ...]
    notices: tuple[GuestNotice, ...]
    lines: tuple[str, ...]
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class GuestAnswer:
    """What became of a wish: `done` or `accepted` (it is written down and goes on by itself), with one line of text."""

    state: str
    text: str
    until: datetime | None = None
    slots: tuple[str, ...] = ()
    reservations: tuple[GuestReservation, ...] = ()


@dataclass(frozen=True, slots=True)
class GuestLink:
    """A one-time address of the page, for this container; it opens until `expires`."""

    url: str
    expires: datetime


def guest_status(
    records: Records,
    name: str,
    *,
    count: GpuCount,
    verdicts: Mapping[Slot, IdleVerdict],
    line: Mapping[str, InLine],
    said: Sequence[Said],
    timezone: str,
    now: datetime,
    show: Show,
) -> GuestStatus:
    """All that one container may see: its own rows, how many cards are free, and what was `said` to it and holds."""
    gpus = tuple(_gpu(records, row, verdicts.get(row.slot)) for row in records.held_by(name))
    open_ = [row for row in records.reservations if row.instance == name and row.open]
    mine = tuple(guest_reservation(row, line.get(row.id)) for row in open_)
    keeps = tuple(_keep(row) for row in records.keeps if row.instance == name and row.until > now)
    first = headline(count, show)
    told = still_true(said, gpus, now=now)
    return GuestStatus(
        instance=name,
        at=now,
        headline=first,
        total=count.total,
        free=count.free,
        next_at=count.next_at,
        gpus=gpus,
        reservations=mine,
        keeps=keeps,
        notices=tuple(GuestNotice(one.kind, one.at.astimezone(UTC), one.text) for one in told),
        timezone=timezone,
        lines=(
            f"{first} (times in {timezone})",
            f"{name} holds {n_held(gpu.slot for gpu in gpus)}",
            *(f"  {_gpu_line(gpu, now, show)}" for gpu in gpus),
            *(f"  {one.slot}: {text}" for one, text in borrowed_by(records, name)),
            *(reservation_line(row, show) for row in mine),
            *(f"kept until {show(row.until)}: {row.reason}" for row in keeps),
            *(line for one in told for line in _notice_lines(one, show)),
        ),
    )


def guest_reservation(row: Reservation, place: InLine | None = None) -> GuestReservation:
    """The part of a reservation that its container sees."""
    return GuestReservation(
        id=row.id,
        kind=row.kind.value,
        gpus=row.gpus,
        model=row.pool or row.model,
        state=row.state.value,
        created_at=row.created_at,
        duration_s=row.duration_s,
        start=row.start,
        until=row.until,
        dies=row.dies,
        position=place.position if place else None,
        estimate=place.estimate if place else None,
        foreseen=place is not None and place.foreseen,
        note=row.note,
    )


def reservation_line(row: GuestReservation, show: Show) -> str:
    """One reservation for people, its id first."""
    what = n_asked(row.gpus, row.model)
    if row.model != "*" and not in_parts(row.model):
        what += f" ({short_model(row.model)})"
    if row.kind == Kind.RETURN:
        ends = f", until {show(row.dies)}" if row.dies else ""
        return f"{row.id}: claim on {what} since {show(row.created_at)}{ends}{_place(row, show)}"
    if row.start and row.until:
        return f"{row.id}: {what} from {show(row.start)} until {show(row.until)}, {row.state}"
    since = f" since {show(row.created_at)}" if row.state == ReservationState.WAITING else ""
    return f"{row.id}: {what} for {format_duration(row.duration_s)}, {row.state}{since}{_place(row, show)}"


def _place(row: GuestReservation, show: Show) -> str:
    place = f", number {row.position} in the line" if row.position else ""
    return place + (f", likely {likely(show(row.estimate), foreseen=row.foreseen)}" if row.estimate else "")


def _gpu(records: Records, row: Assignment, verdict: IdleVerdict | None) -> GuestGpu:
    card, heir = records.card(row.slot.card), records.successor(row.slot)
    names = short_uuids([*(one.uuid for one in records.cards), row.slot.gpu])
    return GuestGpu(
        slot=str(row.slot),
        uuid=row.slot.card,
        pci=card.pci if card else None,
        model=lent_as(card.model, row.slot.gpu) if card else None,
        state=row.state.value,
        since=row.since,
        until=row.until,
        due_at=row.due_at,
        reservation=row.reservation,
        next=heir.instance if heir else None,
        use=verdict.use.value if verdict else None,
        use_since=verdict.since if verdict else None,
        left_until=verdict.protected_until if verdict else None,
        use_why=(verdict.why or None) if verdict else None,
        name=names[row.slot.gpu],
    )


def _gpu_line(gpu: GuestGpu, now: datetime, show: Show) -> str:
    label = f"{short_model(gpu.model) if gpu.model else 'GPU'} ({gpu.name})"
    return ", ".join([label, _time_of(gpu, now, show), *_use_of(gpu, now, show)])


def _time_of(gpu: GuestGpu, now: datetime, show: Show) -> str:
    heir = f" for {gpu.next}" if gpu.next else ""
    if gpu.state == AssignmentState.WARNED:
        return f"is taken{heir} " + (f"at {show(gpu.due_at)}" if gpu.due_at else "soon")
    words = {
        AssignmentState.ATTACHING: "is on its way",
        AssignmentState.RELEASING: f"is being given back{heir}",
        AssignmentState.QUARANTINED: "was yours; it cannot be proven free, so nobody gets it",
    }
    if gpu.state in words:
        return words[AssignmentState(gpu.state)]
    if gpu.until is None:
        return "without an end"
    return "past its end, yours until someone waits" if gpu.until <= now else f"until {show(gpu.until)}"


def _use_of(gpu: GuestGpu, now: datetime, show: Show) -> list[str]:
    if gpu.use is None or gpu.state not in ATTACHED:
        return []
    if gpu.use != Use.IDLE:
        return ["busy" if gpu.use == Use.BUSY else "whether it is used is not known"]
    since = f" since {show(gpu.use_since)}" if gpu.use_since else ""
    left = f", left to you until {show(gpu.left_until)}" if gpu.left_until and gpu.left_until > now else ""
    return [f"idle{since}{left}"]


def _keep(row: Keep) -> GuestKeep:
    return GuestKeep(until=row.until, reason=row.reason)


def _notice_lines(one: Said, show: Show) -> list[str]:
    """A notice below the time at which it was said; whom to ask stands elsewhere."""
    lines = [line for line in one.text.splitlines() if not line.startswith("Help: ")]
    return [f"said at {show(one.at)}:", *(f"  {line}" for line in lines)]
