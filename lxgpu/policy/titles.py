"""Which of somebody's slots are the surplus: beyond what they may hold, or beyond what they are guaranteed; pure.

A surplus is a number, and a plan takes slots: those whose loss is the gentlest are named first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxgpu.policy.guarantees import Guarantees
from lxgpu.policy.parts import Part


def _supply_order(part: Part) -> tuple[bool, bool, int, int, str]:
    """Whose title goes first within one person's parts: expired, idle, then the newest."""
    return (not part.expired, not part.idle, part.work_lost_s if part.idle else 0, part.held_s, part.id)


def over_limit(found: Iterable[Part], ledger: Guarantees) -> frozenset[str]:
    """The parts that are what people and groups hold beyond their limits, as far as whole parts go into that."""

    def room(part: Part) -> Iterator[tuple[str, int]]:
        yield f"person:{part.owner}", ledger.over_limit(part.owner)
        yield from ((f"group:{name}", ledger.group_over_limit(name)) for name in ledger.entitled(part.owner).groups)

    used: dict[str, int] = {}
    chosen = set()
    for part in sorted(found, key=_supply_order):
        fits_in = [key for key, most in room(part) if used.get(key, 0) + part.size <= most]
        if fits_in:
            chosen.add(part.id)
        for key, _ in room(part) if fits_in else ():
            used[key] = used.get(key, 0) + part.size
    return frozenset(chosen)


def beyond(found: Iterable[Part], ledger: Guarantees, *, asker: str) -> frozenset[str]:
    """The idle parts that are beyond their holders' guarantees; the others are within."""
    used: dict[str, int] = {}
    chosen = set()
    for part in sorted(found, key=_supply_order):
        floors = ledger.floors(part.owner, asker=asker)
        if (part.idle or part.expired) and all(used.get(key, 0) + part.size <= most for key, most in floors.items()):
            chosen.add(part.id)
            for key in floors:
                used[key] = used.get(key, 0) + part.size
    return frozenset(chosen)
