"""lxgpu's own history as demand: who asked for cards, how long they held them, and when the cards were at work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, Card
from lxgpu.model.names import owner_by_name
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.services.usage import Ground
from lxgpu.simulate.jobs import NO_WORK, Burst, Job, Lab, Workload, in_time
from lxgpu.simulate.readers.watching import Span, Watched

TOGETHER = timedelta(minutes=1)
"""Cards that a container got within this, for the same reservation or for none, and left within it, are one hold."""
_WAITED = frozenset({Kind.REQUEST, Kind.RETURN})


@dataclass(frozen=True, slots=True)
class _Hold:
    """Cards that one container got at one time and left at one time, as far as that is in the time looked at.

    `times` are those of each card: they may differ by `TOGETHER` at both ends.
    """

    rows: tuple[Assignment, ...]
    times: tuple[Span, ...]

    @property
    def begin(self) -> datetime:
        return min(begin for begin, _ in self.times)

    @property
    def end(self) -> datetime:
        return max(end for _, end in self.times)


def history(ground: Ground, *, since: datetime, now: datetime) -> Workload:
    """The demand of a time up to now, with `since` as second 0.

    A hold is a job that keeps its cards for as long as they were held. It was submitted when it was asked for: for a
    request and a claim that is when they were made, else when it began. It works as its cards did (any of them), moved
    to its submission; what nobody looked at counts as work. One that was taken and given back is two holds, and so are
    cards that came together of which some left before the others: two jobs, asked for at once. Requests that still
    wait are jobs that work all the time asked for; bookings to come are left out. A slot counts as a card.

    Raises:
        LxgpuError: `not_found`: nobody held a card in that time.
    """
    watched = Watched(ground.samples, ground.rules)
    wishes = {row.id: row for row in (*ground.records.reservations, *ground.reservations)}
    owners = {row.instance: row.owner for row in wishes.values()}
    owners |= {row.name: row.owner for row in ground.records.instances}
    jobs = []
    held_s = unseen_s = 0.0
    for count, hold in enumerate(_holds((*ground.records.assignments, *ground.past), since, now)):
        cards = zip((row.slot.gpu for row in hold.rows), hold.times, strict=True)
        busy = watched.busy(hold.rows[0].instance, cards)
        owner = owners.get(hold.rows[0].instance) or owner_by_name(hold.rows[0].instance)
        wish = wishes.get(hold.rows[0].reservation or "")
        jobs.append(_job(count, hold, busy, wish, since, owner=owner, group=_first(ground.groups_of(owner))))
        held_s += sum(_seconds(end, begin) for begin, end in hold.times)
        unseen_s += watched.unseen_s
    jobs += [_waiting(row, ground, since) for row in wishes.values() if row.pending and row.kind in _WAITED]
    if not jobs:
        raise LxgpuError("not_found", f"nobody held or wanted a card since {since:%Y-%m-%d %H:%M} UTC")
    said = f"lxgpu's own history since {since:%Y-%m-%d %H:%M} UTC"
    if unseen_s:
        said += f"; {100 * unseen_s / held_s:.0f} % of the time held was not watched and counts as work"
    return Workload("history", in_time(jobs), said, since)


def own_lab(cards: Iterable[Card]) -> Lab | None:
    """The lab that the cards known now make; where hosts have different numbers, each counts as the largest."""
    hosts = Counter(card.host for card in cards)
    return Lab(len(hosts), max(hosts.values())) if hosts else None


def _holds(rows: Iterable[Assignment], since: datetime, now: datetime) -> Iterator[_Hold]:
    """What was held in the time, together what came and went together; what is only promised is no hold."""
    by_holder: dict[tuple[str, str], list[tuple[datetime, Assignment]]] = defaultdict(list)
    for row in rows:
        end = min(row.closed_at or now, now)
        if row.since is not None and (row.live or row.closed_at) and max(row.since, since) < end:
            by_holder[row.instance, row.reservation or ""].append((row.since, row))
    for mine in by_holder.values():
        mine.sort(key=lambda one: (one[0], one[1].id))
        group: list[Assignment] = []
        first = mine[0][0]
        for at, row in mine:
            if at - first > TOGETHER or row.slot in [one.slot for one in group]:
                yield from _parted(group, since, now)
                group, first = [], at
            group.append(row)
        yield from _parted(group, since, now)


def _parted(rows: Sequence[Assignment], since: datetime, now: datetime) -> Iterator[_Hold]:
    """Cards that came together, by when they left."""
    left = sorted(((min(row.closed_at or now, now), row) for row in rows), key=lambda one: one[0])
    while left:
        together = [one for one in left if one[0] - left[0][0] <= TOGETHER]
        times = tuple((max(row.since or since, since), end) for end, row in together)
        yield _Hold(tuple(row for _, row in together), times)
        left = left[len(together) :]


def _job(
    count: int, hold: _Hold, busy: list[Span], wish: Reservation | None, since: datetime, *, owner: str, group: str
) -> Job:
    row, asked_at = hold.rows[0], hold.begin
    asked_s = _seconds(row.until, hold.begin) if row.until else 0.0
    if wish is not None:
        asked_s = float(wish.duration_s)
        asked_at = max(since, min(wish.created_at, hold.begin)) if _waited(wish) else hold.begin
    return Job(
        f"{row.instance}-{count}",
        owner,
        len(hold.rows),
        _seconds(asked_at, since),
        _seconds(hold.end, hold.begin),
        group,
        row.class_name,
        asked_s=max(0.0, asked_s),
        bursts=tuple(_burst(start, end, since + (hold.begin - asked_at)) for start, end in busy) or NO_WORK,
    )


def _waited(wish: Reservation) -> bool:
    """Whether it waited for its cards from its making on; a booking for a later time did not."""
    return wish.kind in _WAITED or wish.asap


def _waiting(wish: Reservation, ground: Ground, since: datetime) -> Job:
    at, lasts = max(0.0, _seconds(wish.created_at, since)), float(wish.duration_s)
    group = _first(ground.groups_of(wish.owner))
    return Job(
        wish.id, wish.owner, wish.gpus, at, lasts, group, wish.class_name, asked_s=lasts, bursts=(Burst(at, lasts),)
    )


def _burst(start: datetime, end: datetime, zero: datetime) -> Burst:
    return Burst(_seconds(start, zero), (end - start).total_seconds())


def _seconds(at: datetime, zero: datetime) -> float:
    return (at - zero).total_seconds()


def _first(groups: Sequence[str]) -> str:
    return groups[0] if groups else ""
