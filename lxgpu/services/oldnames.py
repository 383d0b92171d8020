"""What containers of the past are called now: samples and closed assignments keep the name of their time; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from lxgpu.model.operation import Event

_MOST = 1000


class Names:
    """Follows the renames that the history tells of."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        told: dict[str, set[tuple[datetime, str]]] = defaultdict(set)
        for event in events:
            old, new = event.detail.get("from"), event.detail.get("to")
            if event.kind == "renamed" and isinstance(old, str) and isinstance(new, str):
                told[old].add((event.at, new))
        self._to = {old: sorted(found) for old, found in told.items()}

    def now(self, name: str, at: datetime) -> str:
        """The name that one called `name` at an instant has now; another one may have taken the old name since."""
        for _ in range(_MOST if self._to else 0):
            found = self._to.get(name, [])
            place = bisect_right(found, at, key=_at)
            if place == len(found):
                break
            at, name = found[place]
        return name


def _at(renamed: tuple[datetime, str]) -> datetime:
    return renamed[0]
