"""Which of somebody's slots are the surplus: beyond what they may hold, or beyond what they are guaranteed; pure.

A surplus is a number, and a plan takes slots: those whose loss is the gentlest are named first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.stakes import Stake


def _supply_order(stake: Stake) -> tuple[bool, bool, int, int, str]:
    """Whose title goes first within one person's stakes: expired, idle, then the newest."""
    return (not stake.expired, not stake.idle, stake.work_lost_s if stake.idle else 0, stake.held_s, stake.id)


def over_limit(found: Iterable[Stake], ledger: Guarantees) -> frozenset[str]:
    """The stakes that are what people and groups hold beyond their limits, as far as whole stakes go into that."""

    def room(stake: Stake) -> Iterator[tuple[str, int]]:
        yield f"person:{stake.owner}", ledger.over_limit(stake.owner)
        yield from ((f"group:{name}", ledger.group_over_limit(name)) for name in ledger.entitled(stake.owner).groups)

    used: dict[str, int] = {}
    chosen = set()
    for stake in sorted((stake for stake in found if ledger.over(stake.owner)), key=_supply_order):
        fits_in = [key for key, most in room(stake) if used.get(key, 0) + stake.size <= most]
        if fits_in:
            chosen.add(stake.id)
        for key, _ in room(stake) if fits_in else ():
            used[key] = used.get(key, 0) + stake.size
    return frozenset(chosen)


def beyond(found: Iterable[Stake], ledger: Guarantees, *, asker: str) -> frozenset[str]:
    """The idle stakes that are beyond their holders' guarantees; the others are within."""
    used: dict[str, int] = {}
    chosen = set()
    for stake in sorted((stake for stake in found if stake.idle or stake.expired), key=_supply_order):
        floors = ledger.floors(stake.owner, asker=asker)
        if all(used.get(key, 0) + stake.size <= most for key, most in floors.items()):
            chosen.add(stake.id)
            for key in floors:
                used[key] = used.get(key, 0) + stake.size
    return frozenset(chosen)
