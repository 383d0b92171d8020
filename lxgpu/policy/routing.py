"""On which of several hosts a request that is bound to none is looked at first: where it disturbs least; pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lxgpu.model.request import Need
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.backfill import Work
from lxgpu.policy.grounds import any_ground, within_reach
from lxgpu.policy.guarantees import Guarantees, ledger
from lxgpu.policy.outlook import stocks
from lxgpu.policy.placement import free_cards, matching
from lxgpu.policy.preemption import asked
from lxgpu.policy.supply import Supply, supply
from lxgpu.policy.tables import once_for_each
from lxgpu.policy.victims import cost


@dataclass(frozen=True, slots=True)
class Route:
    """Places in a list of hosts: those that can meet a need `now`, the best first; and those that may `later`."""

    now: tuple[int, ...] = ()
    later: tuple[int, ...] = ()


def hosts_for(snapshots: Sequence[Snapshot], need: Need) -> Route:
    """Where a need can be met.

    Those that have the cards free, and not booked by others too soon, come first, the one that keeps the fewest before
    the others; only where there are none the one whose holders lose least; and only where nobody can be taken yet all
    where somebody may be later. All snapshots are of the same tables.
    """
    if not snapshots:
        return Route()
    free = [_free(one, need) for one in snapshots]
    enough = sorted((count, place) for place, count in enumerate(free) if count >= need.gpus)
    answers = {place: supply(snapshots[place], need) for _, place in enough}
    at_once = (place for place, one in answers.items() if isinstance(one, Supply) and not one.units)
    if now := tuple(at_once):
        return Route(now=now)
    counted = ledger(snapshots[0], need.reservation)
    key = asked(snapshots[0], need, counted)
    reach = {place: _reach(one, need, counted, key) for place, one in enumerate(snapshots)}
    grounds = [place for place, cards in reach.items() if cards is not None]
    near = (place for place in grounds if free[place] + (reach[place] or 0) >= need.gpus)
    answers |= {place: supply(snapshots[place], need) for place in near if place not in answers}
    found = [(cost(answer.units), place) for place, answer in answers.items() if isinstance(answer, Supply)]
    return Route(now=(min(found)[1],)) if found else Route(later=tuple(grounds))


def host_to_keep(snapshots: Sequence[Snapshot], row: Reservation) -> str:
    """On which of several hosts cards are kept for the first in the queue: where it can hope to begin first.

    Each host would keep some for it, if nobody said; with the answer in `Snapshot.shadows` the others do not.
    """
    free = {place: line for one in snapshots for place, line in stocks(one).items()}
    shadow = Work(snapshots[0], free).keep(row)
    return shadow.place.host if shadow else snapshots[0].seen.host


def _reach(snapshot: Snapshot, need: Need, counted: Guarantees, key: Hashable) -> int | None:
    """How many cards of a host might be taken for a need at most; None: there is no ground for any.

    `key` is all that this depends on, so it is asked once for all who wait and are alike.
    """
    known = _reaches(snapshot)
    if key not in known:
        ground = any_ground(snapshot, need, counted)
        known[key] = within_reach(snapshot, need, counted) if ground else None
    return known[key]


@once_for_each
def _reaches(_snapshot: Snapshot) -> dict[Hashable, int | None]:
    """What was found on a host, by all that it depends on."""
    return {}


def _free(snapshot: Snapshot, need: Need) -> int:
    free = free_cards(snapshot)
    if not free:
        return 0
    meant = matching((gpu.model for gpu in snapshot.seen.gpus), need.pool)
    return sum(gpu.model in meant for gpu in free)
