"""What the page says, in the reader's language: one catalogue, each text once, and times as the lab tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path

from lxgpu.config.yamlload import load_yaml
from lxgpu.errors import LxgpuError
from lxgpu.figures import DAY, HOUR, MINUTE
from lxgpu.model.layout import kind

LANGUAGES = ("en", "zh")
DEFAULT = LANGUAGES[0]
_SHOWN_DAYS = 7

Catalogue = Mapping[str, Mapping[str, str]]
"""Key → language → text; `en_1` is the English text for one of the things counted."""


@cache
def catalogue(path: Path) -> Catalogue:
    """The texts of a file. Raises `LxgpuError` (`bad_file`) for one that is broken."""
    document = load_yaml(path)
    if document.problems or not isinstance(document.value, dict):
        raise LxgpuError("bad_file", f"{path} is no catalogue", why=[str(one) for one in document.problems[:5]])
    return document.value


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language; `now` and `zone` are what times are told by."""

    texts: Catalogue
    language: str
    now: datetime
    zone: tzinfo
    days: tuple[str, ...] = field(init=False)
    _told: dict[datetime, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "days", tuple(self.texts["weekdays"][self.language].split()))

    def __call__(self, key: str, **values: object) -> str:
        """A text with its values; of a counted thing (`n`) the singular where the language has one."""
        found = self.texts[key]
        single = found.get(f"{self.language}_1") if values.get("n") == 1 else None
        return (single or found[self.language]).format(**values)

    def cards(self, count: int, model: str) -> str:
        """So many cards, or the part of one: `2 GPUs`, `1/4 of a GPU`."""
        asked = kind(model)
        if not asked.part:
            return self("gpus", n=count)
        if asked.least:
            return self("part_or_more", part=f"{asked.share:g}")
        return self("part_of", part=asked.part)

    def headline(self, code: str) -> str:
        """What an error of that code is called; all that need no name of their own are called alike."""
        return self(f"error_{code}" if self.has(f"error_{code}") else "error_other")

    def has(self, key: str) -> bool:
        """Whether there is such a text."""
        return key in self.texts

    def when(self, at: datetime) -> str:
        """`18:00` is today, then `tomorrow 09:00`, `Mon 18:00` within a week, else the date."""
        if at not in self._told:  # a calendar says the same times again and again
            self._told[at] = self._when(at)
        return self._told[at]

    def _when(self, at: datetime) -> str:
        local, clock = at.astimezone(self.zone), self.clock(at)
        ahead = (local.date() - self.now.astimezone(self.zone).date()).days
        if ahead == 0:
            return clock
        if ahead == 1:
            return self("tomorrow", clock=clock)
        if 1 < ahead < _SHOWN_DAYS:
            return f"{self.days[local.weekday()]} {clock}"
        return f"{local:%Y-%m-%d} {clock}"

    def between(self, start: datetime, end: datetime | None) -> str:
        """From when until when; a day that both have is said once."""
        if end is None:
            return self("from_on", when=self.when(start))
        same = start.astimezone(self.zone).date() == end.astimezone(self.zone).date()
        return self("from_until", start=self.when(start), until=self.clock(end) if same else self.when(end))

    def clock(self, at: datetime) -> str:
        """A time of day; one that the day has twice keeps its offset."""
        local = at.astimezone(self.zone)
        twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
        return f"{local:%H:%M %z}" if twice else f"{local.hour:02}:{local.minute:02}"

    def day(self, at: datetime) -> str:
        """`Mon 2`."""
        local = at.astimezone(self.zone)
        return self("day_of_month", day=self.days[local.weekday()], number=local.day)

    def offset(self, at: datetime) -> int:
        """So many seconds the lab's clocks are ahead of UTC."""
        shift = at.astimezone(self.zone).utcoffset()
        return int(shift.total_seconds()) if shift else 0

    def field(self, at: datetime) -> str:
        """As a form's field for a local time wants it: `2027-05-01T09:00`."""
        return f"{at.astimezone(self.zone):%Y-%m-%dT%H:%M}"

    def span(self, seconds: float) -> str:
        """A duration in its largest unit that fits, cut: `45 s`, `4 min`, `3 h 20 min`, `2 d 4 h`."""
        whole = max(int(seconds), 0)
        for unit, key, below, small in ((DAY, "days", HOUR, "hours"), (HOUR, "hours", MINUTE, "minutes")):
            if whole >= unit:
                count, rest = divmod(whole, unit)
                more = f" {self(f'span_{small}', n=rest // below)}" if rest >= below else ""
                return self(f"span_{key}", n=count) + more
        return self("span_minutes", n=whole // MINUTE) if whole >= MINUTE else self("span_seconds", n=whole)


def chosen(cookie: str | None, accepts: str) -> str:
    """The reader's language: what they chose, else the first of their browser's that there is."""
    if cookie in LANGUAGES:
        return cookie
    for part in accepts.lower().split(","):
        word = part.split(";")[0].strip().split("-")[0]
        if word in LANGUAGES:
            return word
    return DEFAULT
