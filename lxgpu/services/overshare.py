"""Who holds more of a shared card's memory than their share, by one look, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from lxgpu.model.assignment import ATTACHED, Assignment
from lxgpu.model.gpu import WHOLE, Gpu, Reading
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Notice
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.classes import class_of
from lxgpu.policy.lent import lent
from lxgpu.services.notices import notice


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a card whose holder has `used_bytes` of its memory, which is more than `share_bytes`.

    `row` and `rules` are its holder's, `gpu` and `reading` the part's, at `at`.
    """

    row: Assignment
    rules: PriorityClass
    gpu: Gpu
    reading: Reading
    at: datetime
    used_bytes: int
    share_bytes: int

    @property
    def numbers(self) -> dict[str, object]:
        """What the history keeps of it."""
        return {"gpu": self.row.slot.gpu, "used_bytes": self.used_bytes, "share_bytes": self.share_bytes}

    def stands(self, records: Records) -> bool:
        """Whether it is its holder's by those rows."""
        return any(one.id == self.row.id and one.state in ATTACHED for one in records.assignments)

    def neighbours(self, records: Records) -> list[Assignment]:
        """Who holds other parts of the same card."""
        mine = self.row
        rows = (one for one in records.assignments if one.state in ATTACHED and one.slot.card == mine.slot.card)
        return [one for one in rows if one.instance != mine.instance]


def over_share(seen: Observation, records: Records, policy: Policy) -> Iterator[Part]:
    """All of them. A whole card is nobody's share; what is not known is not too much."""
    seen = lent(seen, records)
    for row in records.assignments:
        gpu = seen.gpu(row.slot.gpu) if row.state in ATTACHED and row.slot.part != WHOLE else None
        reading = seen.readings.of(row.slot.gpu) if gpu and seen.readings else None
        used, share = (reading.memory_used_bytes, reading.memory_total_bytes) if reading else (None, None)
        if gpu and reading and used is not None and share is not None and used > share:
            yield Part(row, class_of(policy, row.class_name), gpu, reading, seen.at, used, share)


def told_about(records: Records, kind: str, row: Assignment, facts: Mapping[str, object], now: datetime) -> Notice:
    """A notice to the holder of a part of a card."""
    found = records.instance(row.instance)
    person = found.owner if found else row.instance
    facts = {"gpus": [row.slot.gpu], **facts}
    return notice(kind, instance=row.instance, person=person, about=row.id, facts=facts, now=now)
