"""Whose cards to take: the exact smallest disturbance, whole units at a time; pure.

Costs are compared in the order of `Cost`. They add up over units, so a knapsack over the slots still needed finds the
smallest sum; each unit's cost is one number with a digit for each comparison, so that adding and comparing are plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import groupby

from lxgpu.model.gpu import Slot

_UNBOUND = 1 << 30
_State = tuple[int, tuple[tuple[int, int], ...]]
"""Slots freed (at most those needed), and for each watched floor (slots gone from under it, most that may go)."""
_Best = tuple[int, int]
"""The smallest cost of a state, and the units taken for it as bits."""


class Standing(IntEnum):
    """How good a holder's title is, from the worst on: what is taken first.

    Surplus: the lease is over, or they hold more than they may. Beyond and within speak of the guarantee.
    """

    IDLE_SURPLUS = 0
    IDLE_BEYOND = 1
    IDLE_WITHIN = 2
    BUSY_SURPLUS = 3
    BUSY_BEYOND = 4
    BOOKED = 5


@dataclass(frozen=True, slots=True)
class Unit:
    """Slots of one instance that end together, and what that costs.

    `slots` would be freed; `cards` is how many slots lose their work, those counted that stay (0: just `slots`).
    `weight` is 2 for who was hit today. `work_lost_s` and `held_s` are slot-seconds, `comes_back` is the chance, in
    thousandths, that an idle holder will soon work again (0: no forecast is in use). `ready` is when the slots can be
    proven free at the earliest: the end of the grace (`due`) and then `after_s` for TERM and the fence. `rule` is the
    code, `why` the sentence that people are told and `numbers` what was compared, as JSON has it. `begun`: they were
    warned for this need already.

    `floors` are the guarantees that its loss counts against, each with how many slots may go from under it at most
    by a plan that has this unit (None: as far as this unit is concerned, any).
    """

    id: str
    instance: str
    slots: tuple[Slot, ...]
    standing: Standing
    ready: datetime
    priority: int = 0
    cards: int = 0
    weight: int = 1
    work_lost_s: int = 0
    held_s: int = 0
    comes_back: int = 0
    grace_s: int = 0
    after_s: int = 0
    rule: str = ""
    why: str = ""
    numbers: Mapping[str, object] = field(default_factory=dict)
    begun: bool = False
    floors: tuple[tuple[str, int | None], ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        """The class of its cost: standing, then the holder's priority."""
        return (int(self.standing), self.priority)

    @property
    def burden(self) -> int:
        """How much it counts in its class."""
        return (self.cards or len(self.slots)) * self.weight

    @property
    def lead_s(self) -> int:
        """From the warning to slots that are proven free, at the longest."""
        return self.grace_s + self.after_s

    @property
    def due(self) -> datetime:
        """The earliest end of its grace."""
        return self.ready - timedelta(seconds=self.after_s)


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """What a plan costs, comparable between hosts: a dearer class outweighs any number of cheaper ones.

    `ranks` are (class, count) from the dearest class down.
    """

    ranks: tuple[tuple[tuple[int, int], int], ...]
    instances: int
    work_lost_s: int
    units: int
    held_s: int
    comes_back: int
    ids: tuple[str, ...]


def cost(plan: Iterable[Unit]) -> Cost:
    """The cost of taking all these units."""
    plan = tuple(plan)
    ranks: Counter[tuple[int, int]] = Counter()
    for unit in plan:
        ranks[unit.rank] += unit.burden
    return Cost(
        ranks=tuple(sorted(ranks.items(), reverse=True)),
        instances=len({unit.instance for unit in plan}),
        work_lost_s=sum(unit.work_lost_s for unit in plan),
        units=len(plan),
        held_s=sum(unit.held_s for unit in plan),
        comes_back=sum(unit.comes_back for unit in plan),
        ids=tuple(sorted(unit.id for unit in plan)),
    )


def cheapest(units: Iterable[Unit], needed: int) -> tuple[Unit, ...] | None:
    """The plan of the smallest cost that frees at least so many slots, in the order of ids; None: there is none.

    Args:
        units: of one host, in any order; their ids differ, and no slot is in two.
        needed: slots; for 0 or less nobody is taken.
    """
    if needed <= 0:
        return ()
    ordered = sorted(units, key=lambda unit: (unit.instance, unit.id))
    if sum(len(unit.slots) for unit in ordered) < needed:
        return None
    numbers, another_instance = _numbers(ordered)
    watched = {key: index for index, key in enumerate(_binding(ordered))}
    last = {key: unit.instance for unit in ordered for key, _ in unit.floors if key in watched}
    states: dict[_State, _Best] = {(0, ((0, _UNBOUND),) * len(watched)): (0, 0)}
    position = 0
    for instance, group in groupby(ordered, key=lambda unit: unit.instance):
        whole = tuple(group)
        costs = [(numbers[position + index], 1 << (position + index)) for index in range(len(whole))]
        position += len(whole)
        touched: dict[_State, _Best] = {}
        for unit, (number, bit) in zip(whole, costs, strict=True):
            more = (number + another_instance, bit)
            grown = _grown(states, unit, more, watched, needed), _grown(touched, unit, (number, bit), watched, needed)
            for found in grown:
                _keep_best(touched, found)
        _keep_best(states, touched)
        states = _without(states, [watched[key] for key, name in last.items() if name == instance])
    best = min((value for (freed, _), value in states.items() if freed == needed), default=None)
    if best is None:
        return None
    plan = tuple(unit for index, unit in enumerate(ordered) if best[1] >> index & 1)
    return _checked(tuple(sorted(plan, key=lambda unit: unit.id)), needed)


def _numbers(units: Sequence[Unit]) -> tuple[list[int], int]:
    """Each unit's cost as one number, and that of one more instance.

    The digits from the lowest up: ids, the chance to come back, time held, units, work lost, instances, then the
    classes. Each place is worth more than all that can stand below it. Of two plans with as many units the one with
    the first id that the other lacks has the smaller sum of ids.
    """
    names = sorted(unit.id for unit in units)
    place_of = {name: len(names) - 1 - index for index, name in enumerate(names)}
    columns = [
        [(1 << len(names)) - (1 << place_of[unit.id]) for unit in units],
        [unit.comes_back for unit in units],
        [unit.held_s for unit in units],
        [1] * len(units),
        [unit.work_lost_s for unit in units],
    ]
    place, numbers = 1, [0] * len(units)
    for column in columns:
        most = sum(column)
        if most:  # a column of zeros compares nothing
            numbers = [number + value * place for number, value in zip(numbers, column, strict=True)]
            place *= most + 1
    another_instance = place
    place *= len(units) + 1
    for rank in sorted({unit.rank for unit in units}):
        column = [unit.burden if unit.rank == rank else 0 for unit in units]
        numbers = [number + value * place for number, value in zip(numbers, column, strict=True)]
        place *= sum(column) + 1
    return numbers, another_instance


def _binding(units: Sequence[Unit]) -> list[str]:
    """The floors that could be undercut at all; the others need no watching."""
    total: Counter[str] = Counter()
    least: dict[str, int] = {}
    for unit in units:
        for key, most in unit.floors:
            total[key] += len(unit.slots)
            if most is not None:
                least[key] = min(most, least.get(key, most))
    return sorted(key for key, most in least.items() if total[key] > most)


def _grown(
    states: Mapping[_State, _Best], unit: Unit, more: _Best, watched: Mapping[str, int], needed: int
) -> dict[_State, _Best]:
    """Every state with this unit taken as well, where the floors allow it."""
    found: dict[_State, _Best] = {}
    size = len(unit.slots)
    floors = [(watched[key], _UNBOUND if most is None else most) for key, most in unit.floors if key in watched]
    for (freed, marks), (paid, taken) in states.items():
        changed = _lowered(marks, floors, size) if floors else marks
        if changed is None:
            continue
        state, value = (min(freed + size, needed), changed), (paid + more[0], taken | more[1])
        if state not in found or value < found[state]:
            found[state] = value
    return found


def _lowered(
    marks: tuple[tuple[int, int], ...], floors: Sequence[tuple[int, int]], size: int
) -> tuple[tuple[int, int], ...] | None:
    changed = list(marks)
    for index, most in floors:
        gone, bound = changed[index]
        gone, bound = gone + size, min(bound, most)
        if gone > bound:
            return None
        changed[index] = (gone, bound)
    return tuple(changed)


def _keep_best(states: dict[_State, _Best], found: Mapping[_State, _Best]) -> None:
    for state, value in found.items():
        if state not in states or value < states[state]:
            states[state] = value


def _without(states: dict[_State, _Best], over: Sequence[int]) -> dict[_State, _Best]:
    """The states without the floors that no unit to come counts against."""
    if not over:
        return states
    fewer: dict[_State, _Best] = {}
    for (freed, marks), value in states.items():
        kept = tuple((0, _UNBOUND) if index in over else mark for index, mark in enumerate(marks))
        _keep_best(fewer, {(freed, kept): value})
    return fewer


def _checked(plan: tuple[Unit, ...], needed: int) -> tuple[Unit, ...]:
    """The plan; one that could spare a victim would cost less without it, so it cannot be the cheapest."""
    freed = sum(len(unit.slots) for unit in plan)
    if freed < needed or any(freed - len(unit.slots) >= needed for unit in plan):
        raise AssertionError(f"not the smallest plan for {needed}: {[unit.id for unit in plan]}")
    return plan
