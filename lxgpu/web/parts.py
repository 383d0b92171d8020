"""The parts of the page as HTML: what is published, put into words and templates for one reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lxgpu.model.cardnames import lent_as, short_model
from lxgpu.model.gpu import is_part
from lxgpu.ports import Texts
from lxgpu.services.cardviews import GpuView
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.statusfile import Published
from lxgpu.web.calendar import bar_text, calendar_model
from lxgpu.web.cards import groups, people, tally
from lxgpu.web.mine import Mine, mine_of
from lxgpu.web.sessions import Reader
from lxgpu.web.statics import Statics
from lxgpu.web.watching import Seen
from lxgpu.web.words import Catalogue, Words

_COMING, _LINE = 8, 8
_KEPT = 256
LOOKS = ("auto", "light", "dark")


@dataclass(frozen=True, slots=True)
class Taste:
    """How a reader wants to see it: a language of `words`, and one of LOOKS."""

    language: str
    look: str = "auto"


@dataclass(frozen=True, slots=True)
class Coming:
    """What is booked or waits, by time: the first few, and how many more."""

    booked: tuple[ReservationView, ...]
    waiting: tuple[ReservationView, ...]
    more: int


class Parts:
    """Makes HTML. What many readers see alike is made once for what was published last."""

    def __init__(self, texts: Texts, catalogue: Catalogue, statics: Statics) -> None:
        self._texts, self._catalogue, self._statics = texts, catalogue, statics
        self._made: dict[tuple[object, ...], str] = {}
        self._version = -1

    def words(self, seen: Seen, taste: Taste, *, now: datetime | None = None) -> Words:
        """The texts for a reader, with the lab's zone."""
        zone = _zone(seen.found.timezone if seen.found else "UTC")
        return Words(self._catalogue, taste.language, now or datetime.now(UTC), zone)

    def page(self, template: str, seen: Seen, reader: Reader | None, taste: Taste, **values: object) -> str:
        """A whole page; `here` is its address, for the links that change language and look."""
        return self._render(f"web/{template}.html.j2", seen, reader, taste, values)

    def cards(self, seen: Seen, reader: Reader, taste: Taste) -> str:
        """How many are free, the cards, what comes next."""
        return self._once("cards", seen, reader, taste, lambda found: _cards(found, reader.name))

    def calendar(self, seen: Seen, reader: Reader, taste: Taste, *, view: str, day: int) -> str:
        """Who has which card when."""

        def made(found: Published) -> Mapping[str, object]:
            drawn = calendar_model(found, view=view, day=day, zone=_zone(found.timezone), me=reader.name)
            return {"calendar": drawn, "found": found, "told": bar_text}

        return self._once("calendar", seen, reader, taste, made, view, day)

    def age(self, seen: Seen, taste: Taste) -> str:
        """How old it all is."""
        return self._render("web/part_age.html.j2", seen, None, taste, {})

    def seen_of(self, seen: Seen, reader: Reader) -> Mine:
        """The reader's own things as they are published: at once, and the page asks for the daemon's words after."""
        return mine_of(seen.found, None, reader.name)

    def part(self, name: str, seen: Seen, reader: Reader | None, taste: Taste, **values: object) -> str:
        """A part that is made for one reader."""
        return self._render(f"web/part_{name}.html.j2", seen, reader, taste, values)

    def _once(
        self,
        name: str,
        seen: Seen,
        reader: Reader,
        taste: Taste,
        values: Callable[[Published], Mapping[str, object]],
        *more: object,
    ) -> str:
        """A part of what was published, made once for all who see the same of it."""
        if seen.version != self._version or len(self._made) > _KEPT:
            self._version = seen.version
            self._made.clear()
        minute = int(datetime.now(UTC).timestamp() // 60)
        key = (name, reader.kind, reader.name, taste.language, minute, *more)
        if key not in self._made:
            given = values(seen.found) if seen.found else {"found": None, "calendar": None}
            self._made[key] = self._render(f"web/part_{name}.html.j2", seen, reader, taste, given)
        return self._made[key]

    def _render(
        self, template: str, seen: Seen, reader: Reader | None, taste: Taste, values: Mapping[str, object]
    ) -> str:
        now = datetime.now(UTC)
        t = self.words(seen, taste, now=now)
        return self._texts.render(
            template,
            t=t,
            taste=taste,
            seen=seen,
            stale=seen.found is not None and seen.found.stale(now),
            age_s=seen.found.age_s(now) if seen.found else 0.0,
            now=now,
            reader=reader,
            static=self._statics.address,
            **values,
        )


def _cards(found: Published, me: str) -> Mapping[str, object]:
    by_model = groups(found, me)
    counted = {"groups": by_model, "tally": tally(by_model)}
    return {"found": found, "coming": coming(found), "marks": people(found), **counted}


def coming(found: Published) -> Coming:
    """The next bookings, and who waits, in the order of the line."""
    now = found.written_at
    booked = (row for row in found.reservations if row.state in {"scheduled", "preparing"})
    ahead = sorted((row for row in booked if row.start and row.start > now), key=lambda row: (row.start or now, row.id))
    waiting = [row for row in found.reservations if row.state == "waiting"]
    more = max(len(ahead) - _COMING, 0) + max(len(waiting) - _LINE, 0)
    return Coming(tuple(ahead[:_COMING]), tuple(waiting[:_LINE]), more)


def models(found: Published | None) -> tuple[tuple[str, str], ...]:
    """The models that there are, as one asks for them and as they are shown."""
    cards = [gpu for gpu in found.gpus if gpu.model] if found else []
    names = dict.fromkeys(lent_as(gpu.model or "", name) for gpu in cards for name in _lent(gpu))
    return tuple((name, short_model(name)) for name in names)


def _lent(gpu: GpuView) -> list[str]:
    """A card's parts by name, or the card."""
    return [slot.slot for slot in gpu.slots if is_part(slot.slot)] or [gpu.uuid]


def _zone(name: str) -> ZoneInfo:
    """The lab's zone; UTC where this machine knows none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")
