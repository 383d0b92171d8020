"""What was seen of the use of cards, and what is concluded from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading as it is kept: shares in percent, sizes in bytes, None where NVML did not say.

    `memory_used_bytes` leaves out what display servers take (of a part nothing: all there is its holder's),
    `processes` counts those that compute. `instance` is who held the card then, `shared` how many raw readings a
    thinned one stands for; `utilization_percent` and `memory_used_bytes` of a thinned one are the highest among those.
    `login` says whether an SSH session of the holder was open.
    """

    at: datetime
    uuid: str
    utilization_percent: int | None
    memory_used_bytes: int | None
    processes: int | None = None
    instance: str = ""
    login: bool | None = None
    shared: int = 1


class Use(StrEnum):
    """Whether a card works. Unknown is never idle."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class IdleVerdict:
    """The judgement on one held slot.

    `since` is when the idleness began (of a busy one: when work was seen last). `parked`: memory is held, no work is
    done. `protected_until` is until when an idle one is left alone all the same (parked memory, an SSH session, a
    `keep`); `why` says it in words.
    """

    use: Use
    since: datetime | None = None
    parked: bool = False
    protected_until: datetime | None = None
    why: str = ""

    def takeable(self, now: datetime) -> bool:
        """Whether it counts as idle for those who wait."""
        return self.use is Use.IDLE and (self.protected_until is None or self.protected_until <= now)


NOT_JUDGED = IdleVerdict(Use.UNKNOWN, why="not watched long enough")
