"""What each person may have: classes, groups, quotas and who is an admin; pure, `now` is always given.

The order is: flag > user > the groups' `each` > the profile > defaults. An override in force lies over the level it
names, and over no other. Of several groups each value is the one that is best for the person, so that it does not
matter in which order a person joined them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from lxgpu.model.instance import Limits
from lxgpu.model.rules import DAY, Allowance, PriorityClass, Rules, SharedData

_GIB = 1024**3
EVERYBODY = "*"
"""Stands for all people, in `who` of a class and `members` of a group."""


@dataclass(frozen=True, slots=True)
class Terms:
    """One level of a quota; None means that this level does not say.

    `guaranteed` and `limit` count cards, `weight` is the share of fairness, `lease_s` the length of a card's lease
    without a booking, `retain_s` how long a deleted container is kept. `cpu` (cores), `memory_bytes`, `disk_bytes`
    and `processes` are what a container gets; `per_gpu_*` comes on top for each card. `gpu_hours` bounds use over
    time. `until` is when the person ends. With `lend_idle` their cards are lent on while they leave them idle.
    """

    class_name: str | None = None
    guaranteed: int | None = None
    limit: int | None = None
    weight: float | None = None
    lease_s: int | None = None
    retain_s: int | None = None
    cpu: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None
    per_gpu_cpu: int | None = None
    per_gpu_memory_bytes: int | None = None
    gpu_hours: Allowance | None = None
    until: datetime | None = None
    mail: str | None = None
    lend_idle: bool | None = None

    def over(self, lower: Terms) -> Terms:
        """This level laid over a lower one: what it does not say shines through."""
        said = self.said()
        return replace(lower, **said) if said else lower

    def said(self) -> dict[str, Any]:
        """The fields that this level says something about."""
        return {name: value for name in _TERM_NAMES if (value := getattr(self, name)) is not None}


_TERM_NAMES = tuple(item.name for item in fields(Terms))
NOTHING = Terms()
"""A level that says nothing."""
BASE_TERMS = Terms(
    class_name="normal",
    guaranteed=0,
    limit=1,
    weight=1.0,
    lease_s=3 * DAY,
    retain_s=30 * DAY,
    cpu=8,
    memory_bytes=32 * _GIB,
    disk_bytes=200 * _GIB,
    processes=16384,
    per_gpu_cpu=8,
    per_gpu_memory_bytes=64 * _GIB,
    lend_idle=False,
)
"""What holds where the policy file says nothing at all."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What one person may have at one moment, all levels merged. `groups` are the policy groups that counted.

    Fields as in `Terms`, without gaps; `gpu_hours`, `until` and `mail` may be None: no bound, no end, not known.
    `guaranteed` is never above `limit`.
    """

    person: str
    groups: tuple[str, ...]
    class_name: str
    guaranteed: int
    limit: int
    weight: float
    lease_s: int
    retain_s: int
    cpu: int
    memory_bytes: int
    disk_bytes: int
    processes: int
    per_gpu_cpu: int
    per_gpu_memory_bytes: int
    gpu_hours: Allowance | None = None
    until: datetime | None = None
    mail: str | None = None
    lend_idle: bool = False

    def limits(self, gpus: int) -> Limits:
        """What a container with that many cards gets."""
        return Limits(
            cpu=self.cpu + gpus * self.per_gpu_cpu,
            memory_bytes=self.memory_bytes + gpus * self.per_gpu_memory_bytes,
            disk_bytes=self.disk_bytes,
            processes=self.processes,
        )

    def ended(self, now: datetime) -> bool:
        """Whether the person's time is over."""
        return self.until is not None and now >= self.until


@dataclass(frozen=True, slots=True)
class Total:
    """What a group has together; `limit` None: no bound but its members' own."""

    guaranteed: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the policy. `members` and `managers` are people or `@unix-groups`."""

    name: str
    members: tuple[str, ...] = ()
    total: Total = Total()
    each: Terms = NOTHING
    managers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What an override changes of one group; None means not changed."""

    guaranteed: int | None = None
    limit: int | None = None
    each: Terms = NOTHING


@dataclass(frozen=True, slots=True)
class Override:
    """A change of the policy for the half-open time from `start` until `end`; of several the last in the file wins."""

    start: datetime
    end: datetime
    groups: Mapping[str, Change] = field(default_factory=dict)
    users: Mapping[str, Terms] = field(default_factory=dict)
    defaults: Terms = NOTHING
    note: str = ""


def _default_classes() -> dict[str, PriorityClass]:
    return {"normal": PriorityClass("normal", priority=50)}


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy file as values; `Policy()` is what holds without a file.

    `admins` are people or `@unix-groups`; root always is one. `contact` is printed with every refusal.
    """

    timezone: str = "UTC"
    contact: str = "the admin of this machine"
    admins: tuple[str, ...] = ("root",)
    classes: Mapping[str, PriorityClass] = field(default_factory=_default_classes)
    defaults: Terms = BASE_TERMS
    groups: Mapping[str, Group] = field(default_factory=dict)
    users: Mapping[str, Terms] = field(default_factory=dict)
    data: Mapping[str, SharedData] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def zone(self) -> ZoneInfo:
        """The lab's time zone."""
        return ZoneInfo(self.timezone)

    def in_force(self, now: datetime) -> tuple[int, ...]:
        """Which overrides are in force at a moment, by their places in the file: nothing else depends on time."""
        if not self.overrides:
            return ()
        return tuple(index for index, one in enumerate(self.overrides) if one.start <= now < one.end)

    def groups_of(self, person: str, unix_groups: Collection[str]) -> frozenset[str]:
        """The policy groups that a person is in, by name or by a Unix group of the host."""
        return frozenset(
            name for name, group in self.groups.items() if _among(group.members, person=person, unix_groups=unix_groups)
        )

    def entitlement(
        self,
        person: str,
        groups: frozenset[str],
        now: datetime,
        *,
        profile: Terms = NOTHING,
        flags: Terms = NOTHING,
    ) -> Entitlement:
        """What a person may have at a moment.

        Args:
            person: the account's name; people whom the policy does not name have the defaults.
            groups: their policy groups, from `groups_of`; names that the policy does not know count for nothing.
            now: aware; decides which overrides are in force.
            profile: what the container's profile says about limits.
            flags: what was said on the command line.
        """
        active = [self.overrides[index] for index in self.in_force(now)]
        mine = tuple(sorted(name for name in groups if name in self.groups))
        terms = _stack(BASE_TERMS, self.defaults, *(override.defaults for override in active), profile)
        terms = self._best(self._each(name, active) for name in mine).over(terms)
        own = (override.users[person] for override in active if person in override.users)
        terms = _stack(terms, self.users.get(person, NOTHING), *own, flags)
        return _complete(terms, person=person, groups=mine)

    def group_total(self, name: str, now: datetime) -> Total:
        """What a group has together at a moment.

        Raises:
            KeyError: no such group.
        """
        total = self.groups[name].total
        for override in self.overrides:
            change = override.groups.get(name)
            if change is not None and override.start <= now < override.end:
                total = Total(
                    guaranteed=total.guaranteed if change.guaranteed is None else change.guaranteed,
                    limit=total.limit if change.limit is None else change.limit,
                )
        return total

    def may_use(self, class_name: str, person: str, unix_groups: Collection[str], now: datetime) -> bool:
        """Whether a person may ask in that class: their own, a lower one, or one whose `who` names them."""
        wanted = self.classes.get(class_name)
        if wanted is None:
            return False
        if _among(wanted.who, person=person, unix_groups=unix_groups):
            return True
        own = self.classes.get(self.entitlement(person, self.groups_of(person, unix_groups), now).class_name)
        return own is not None and wanted.priority <= own.priority

    def is_admin(self, person: str, unix_groups: Collection[str]) -> bool:
        """Whether a person is an admin; root always is."""
        return person == "root" or _among(self.admins, person=person, unix_groups=unix_groups)

    def manages(self, group: str, person: str, unix_groups: Collection[str]) -> bool:
        """Whether a person is a manager of that policy group."""
        known = self.groups.get(group)
        return known is not None and _among(known.managers, person=person, unix_groups=unix_groups)

    def data_for(self, groups: Collection[str]) -> tuple[SharedData, ...]:
        """The shared directories that somebody in these policy groups gets, by name."""
        return tuple(self.data[name] for name in sorted(self.data) if self.data[name].open_to(groups))

    def _each(self, name: str, active: Iterable[Override]) -> Terms:
        changes = (override.groups[name].each for override in active if name in override.groups)
        return _stack(self.groups[name].each, *changes)

    def _best(self, levels: Iterable[Terms]) -> Terms:
        """Of several groups' levels the better value of each field: more, longer, higher."""
        best = NOTHING
        for level in levels:
            better: dict[str, Any] = {
                name: self._better(getattr(best, name), getattr(level, name)) for name in _TERM_NAMES
            }
            best = replace(best, **better)
        return best

    def _better(self, one: object, other: object) -> object:
        if one is None or other is None:
            return other if one is None else one
        if isinstance(one, bool) and isinstance(other, bool):
            return one and other  # the one such field is a consent, and one no is enough
        return max(one, other, key=self._worth)

    def _worth(self, value: object) -> float:
        match value:
            case Allowance(amount=amount, window_s=window_s):
                return amount / window_s
            case datetime():
                return value.timestamp()
            case int() | float():
                return float(value)
            case str() if value in self.classes:
                return float(self.classes[value].priority)
            case _:
                return 0.0


def _among(subjects: Collection[str], *, person: str, unix_groups: Collection[str]) -> bool:
    return person in subjects or EVERYBODY in subjects or any(f"@{group}" in subjects for group in unix_groups)


def _stack(bottom: Terms, *levels: Terms) -> Terms:
    for level in levels:
        bottom = level.over(bottom)
    return bottom


def _complete(terms: Terms, *, person: str, groups: tuple[str, ...]) -> Entitlement:
    """Terms without gaps (BASE_TERMS fills them) as an entitlement; a limit below the guarantee counts."""
    values = {name: getattr(terms, name) for name in _TERM_NAMES}
    values["guaranteed"] = min(values["guaranteed"], values["limit"])
    return Entitlement(person=person, groups=groups, **values)
