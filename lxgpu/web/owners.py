"""One colour and two letters a person, so that a calendar can be read at a glance; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

HUES = 12
"""So many colours there are in page.css; with more people some share one, and the letters tell them apart."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How a person is drawn: the number of a colour, and initials."""

    hue: int
    initials: str


def marks(people: Iterable[str]) -> dict[str, Mark]:
    """A mark for each: the colour comes from the name, so that it stays, and moves on where it is taken."""
    taken: set[int] = set()
    found: dict[str, Mark] = {}
    for name in sorted(set(people), key=lambda name: (crc32(name.encode()), name)):
        hue = crc32(name.encode()) % HUES
        while hue in taken and len(taken) < HUES:
            hue = (hue + 1) % HUES
        taken.add(hue)
        found[name] = Mark(hue, initials(name))
    return found


def initials(name: str) -> str:
    """`AL` of alice, `JD` of jane-doe, `王` of 王小明."""
    parts = [part for part in re.split(r"[-_. ]+", name) if part]
    if not parts:
        return "?"
    if not parts[0].isascii():
        return parts[0][0]
    return (parts[0][0] + parts[1][0] if len(parts) > 1 else name[:2]).upper()
