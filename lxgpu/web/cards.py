"""The cards as the page shows them, grouped by model, free and total first; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lxgpu.model.cardnames import short_model, short_uuids
from lxgpu.model.gpu import card_of
from lxgpu.services.calendarview import Bar, BarKind
from lxgpu.services.cardviews import FREE, GpuView, SlotView
from lxgpu.services.statusfile import Published
from lxgpu.web.owners import Mark, marks
from lxgpu.web.spark import Spark, spark

HELD = frozenset({"attaching", "active", "warned", "releasing"})
STATES = frozenset({FREE, "promised", "closed", "quarantined", "sick", "missing", "foreign", "unknown"}) | HELD
_OUT = frozenset({"closed", "quarantined", "sick", "missing", "unknown"})


@dataclass(frozen=True, slots=True)
class Part:
    """A slot: a whole card, or a share or slice of one (`name` is its number then)."""

    name: str
    state: str
    holder: str
    mark: Mark | None
    mine: bool
    until: datetime | None
    over: bool


@dataclass(frozen=True, slots=True)
class Next:
    """Who has a card next, from when; `None`: as soon as its holder has given way."""

    who: str
    mark: Mark
    at: datetime | None


@dataclass(frozen=True, slots=True)
class CardModel:
    """One card. `percent` is its use now, `spark` that of the last day; `note` says what is wrong with it."""

    uuid: str
    name: str
    parts: tuple[Part, ...]
    state: str
    mine: bool
    percent: int | None
    verdict: str
    memory_used_bytes: int | None
    memory_bytes: int | None
    spark: Spark | None
    next: Next | None
    note: str

    @property
    def one(self) -> Part:
        """The slot of a card that is not divided."""
        return self.parts[0]


@dataclass(frozen=True, slots=True)
class Group:
    """The cards of one model."""

    model: str
    memory_bytes: int | None
    free: int
    cards: tuple[CardModel, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cards are free, held and out of use; together all that are there."""

    free: int
    held: int
    out: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.free + self.held + self.out


def people(found: Published) -> dict[str, Mark]:
    """A mark for every container that is seen anywhere: its owner's, so that one person has one colour."""
    owners = {view.name: view.owner or view.name for view in found.instances}
    seen = {row.instance for row in found.reservations} | {
        slot.holder for gpu in found.gpus for slot in gpu.slots if slot.holder
    }
    names = sorted(seen | set(owners))
    of = marks(owners.get(name, name) for name in names)
    return {name: of[owners.get(name, name)] for name in names}


def groups(found: Published, me: str) -> tuple[Group, ...]:
    """All cards by model, in the host's order; `me` is the reader's container, or empty."""
    colours, shorts = people(found), short_uuids(gpu.uuid for gpu in found.gpus)
    lines: dict[str, tuple[Bar, ...]] = {}
    for line in found.calendar.lines if found.calendar else ():
        if line.uuid:
            lines[card_of(line.uuid)] = (*lines.get(card_of(line.uuid), ()), *line.bars)
    by_model: dict[str, list[CardModel]] = {}
    memory: dict[str, int | None] = {}
    for gpu in found.gpus:
        model = short_model(gpu.model or "GPU")
        card = _card(found, gpu, lines.get(gpu.uuid, ()), shorts[gpu.uuid], colours=colours, me=me)
        by_model.setdefault(model, []).append(card)
        memory[model] = gpu.memory_bytes
    return tuple(
        Group(model, memory[model], sum(card.state == FREE for card in cards), tuple(cards))
        for model, cards in by_model.items()
    )


def tally(of: Iterable[Group]) -> Tally:
    """Count them; a divided card is free when all of it is, and held when any of it is."""
    states = [card.state for group in of for card in group.cards if card.state != "missing"]
    free = sum(state == FREE for state in states)
    out = sum(state in _OUT for state in states)
    return Tally(free, len(states) - free - out, out)


def _card(
    found: Published, gpu: GpuView, bars: Iterable[Bar], name: str, *, colours: Mapping[str, Mark], me: str
) -> CardModel:
    parts = tuple(_part(slot, found.written_at, colours, me) for slot in gpu.slots)
    use = found.use.get(gpu.uuid)
    held = any(part.state in HELD for part in parts)
    return CardModel(
        uuid=gpu.uuid,
        name=name,
        parts=parts or (Part("", "unknown", "", None, mine=False, until=None, over=False),),
        state=_state(parts),
        mine=any(part.mine for part in parts),
        percent=gpu.utilization_percent,
        verdict=(gpu.verdict or "unknown") if held else "",
        memory_used_bytes=gpu.memory_used_bytes,
        memory_bytes=gpu.memory_bytes,
        spark=spark(use.percents) if use else None,
        next=_next(bars, found.written_at, colours),
        note=found.notes.get(gpu.uuid, ""),
    )


def _part(slot: SlotView, now: datetime, colours: Mapping[str, Mark], me: str) -> Part:
    holder = slot.holder or ""
    state = slot.state if slot.state in STATES else "unknown"
    over = slot.lease_until is not None and slot.lease_until <= now and state in HELD
    _, _, number = slot.slot.partition("/")
    return Part(
        name=number,
        state=state or "unknown",
        holder=holder,
        mark=colours.get(holder),
        mine=bool(me) and holder == me,
        until=slot.lease_until,
        over=over,
    )


def _state(parts: tuple[Part, ...]) -> str:
    """One word for the whole card: what is the same of all parts, else that it is held."""
    states = {part.state for part in parts}
    if len(states) == 1:
        return states.pop()
    worst = next((state for state in ("missing", "sick", "quarantined", "closed") if state in states), "")
    return worst or ("active" if states else "unknown")


def _next(bars: Iterable[Bar], now: datetime, colours: Mapping[str, Mark]) -> Next | None:
    booked = [bar for bar in bars if bar.kind is BarKind.BOOKED and (bar.until is None or bar.until > now)]
    if not booked:
        return None
    first = min(booked, key=lambda bar: bar.start)
    mark = colours.get(first.instance) or marks([first.instance])[first.instance]
    return Next(first.instance, mark, first.start if first.start > now else None)
