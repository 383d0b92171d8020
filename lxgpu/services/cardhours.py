"""Who had which card when, and which of it was work: pieces of time that neither overlap nor leave anything out; pure.

All in whole microseconds, so that sums are exact: what is held is what was used, idle and unknown, to the last one, and
never more than there were cards. Who holds a part of a divided card had so much of its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from lxgpu.model.assignment import Assignment
from lxgpu.model.gpu import card_of, share_of
from lxgpu.model.rules import IdleRules
from lxgpu.model.usage import Sample
from lxgpu.policy.idleness import known, worked
from lxgpu.services.oldnames import Names

LONGEST = timedelta(minutes=15)
"""A sample speaks for the time until the next one, and for no longer than this."""
LAST = timedelta(minutes=1)
"""The newest sample speaks for so long."""
MOST_PARTS = 1000
"""A card has no more parts; nor has one of its slices a share that takes larger numbers to write."""
HOUR_US = 3_600_000_000
_US = timedelta(microseconds=1)


class Had(StrEnum):
    """What a time of holding was: work on the card, none, or nobody looked."""

    USED = "used"
    IDLE = "idle"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # the hash of Enum is Python code, and there are many pieces


class Piece(NamedTuple):
    """A container had a card from `begin` until `end` (microseconds of the Unix time), for `gpu_us` of its time."""

    card: str
    instance: str
    begin: int
    end: int
    had: Had
    gpu_us: int


class _Hold(NamedTuple):
    begin: int
    end: int
    instance: str


class _Spoken(NamedTuple):
    """The time that a sample speaks for, of whose card, and what it says; tuples, since there are very many."""

    begin: int
    end: int
    instance: str
    had: Had


def micros(at: datetime) -> int:
    """An instant in microseconds of the Unix time, exactly."""
    return round(at.timestamp() * 1_000_000)


def pieces(
    assignments: Iterable[Assignment],
    samples: Iterable[Sample],
    rules: IdleRules,
    *,
    since: datetime,
    now: datetime,
    names: Names,
) -> Iterator[Piece]:
    """All holding between two instants, a card after the other, in order; adjoining ones that are alike are one.

    Args:
        assignments: living and closed ones, in any order; one that is only planned holds nothing.
        samples: oldest first, from `LONGEST` before `since` on.
        rules: what is work.
        since: from when on.
        now: until when.
        names: what containers are called now.
    """
    holds: dict[str, list[_Hold]] = defaultdict(list)
    for row in assignments:
        hold = _hold(row, since, now, names)
        if hold is not None:
            holds[row.slot.gpu].append(hold)
    seen: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.uuid in holds:
            seen[sample.uuid].append(sample)
    for card in sorted(holds):
        yield from _joined(_of_card(card, sorted(holds[card], key=_order), list(_spoken(seen[card], rules, names))))


def _hold(row: Assignment, since: datetime, now: datetime, names: Names) -> _Hold | None:
    if row.since is None or not (row.live or row.closed_at):
        return None
    end = min(row.closed_at or now, now)
    begin = max(row.since, since)
    return _Hold(micros(begin), micros(end), names.now(row.instance, row.closed_at or now)) if begin < end else None


def _spoken(samples: Sequence[Sample], rules: IdleRules, names: Names) -> Iterator[_Spoken]:
    """What samples of one card say; of one after the other that say the same, one thing."""
    begins = [micros(sample.at) for sample in samples]
    longest, last = LONGEST // _US, LAST // _US
    begin = end = 0
    whose: str = ""
    had = Had.UNKNOWN
    for number, sample in enumerate(samples):
        if not sample.instance:
            continue
        says = Had.USED if worked(sample, rules) else Had.IDLE if known(sample, rules) else Had.UNKNOWN
        if says is Had.UNKNOWN:
            continue
        at = begins[number]
        until = min(begins[number + 1], at + longest) if number + 1 < len(begins) else at + last
        name = names.now(sample.instance, sample.at)
        if at == end and says is had and name == whose:
            end = until
            continue
        if end > begin:
            yield _Spoken(begin, end, whose, had)
        begin, end, whose, had = at, until, name, says
    if end > begin:
        yield _Spoken(begin, end, whose, had)


def _of_card(card: str, holds: Sequence[_Hold], spoken: Sequence[_Spoken]) -> Iterator[Piece]:
    """The times of one card, or a part of one, between any two instants at which something changes."""
    of_card = Fraction(share_of(card)).limit_denominator(MOST_PARTS)
    marks = {at for hold in holds for at in (hold.begin, hold.end)}
    marks |= {at for one in spoken for at in (one.begin, one.end)}
    active: list[_Hold] = []
    comes = heard = 0
    for begin, end in pairwise(sorted(marks)):
        active = [hold for hold in active if hold.end > begin]
        while comes < len(holds) and holds[comes].begin <= begin:
            active.append(holds[comes])
            comes += 1
        while heard < len(spoken) and spoken[heard].end <= begin:
            heard += 1
        said = spoken[heard] if heard < len(spoken) and spoken[heard].begin <= begin else None
        share, rest = (
            divmod((end - begin) * of_card.numerator // of_card.denominator, len(active)) if active else (0, 0)
        )
        for number, hold in enumerate(active):
            mine = said is not None and said.instance == hold.instance
            had = said.had if said is not None and mine else Had.UNKNOWN
            yield Piece(card_of(card), hold.instance, begin, end, had, share + (rest if number == 0 else 0))


def _joined(found: Iterable[Piece]) -> Iterator[Piece]:
    """Fewer of them: a day of looks at one who works is one piece. Parts of one card are left as they are."""
    last: Piece | None = None
    for piece in found:
        alike = last is not None and (last.instance, last.had, last.end) == (piece.instance, piece.had, piece.begin)
        if last is not None and alike and _whole(last) and _whole(piece):
            last = last._replace(end=piece.end, gpu_us=last.gpu_us + piece.gpu_us)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _whole(piece: Piece) -> bool:
    return piece.gpu_us == piece.end - piece.begin


def _order(hold: _Hold) -> tuple[int, int, str]:
    return hold.begin, hold.end, hold.instance
