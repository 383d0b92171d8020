"""What no single line of policy.yaml can get wrong alone: references, sums, times that cross.

References are looked up in the raw values, so that one wrong class is not reported again wherever it is used; the
rest looks at a `Policy` built from what is right, so that every mistake is found in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from lxgpu.config.check import Finding, did_you_mean
from lxgpu.config.yamlload import Steps
from lxgpu.instants import format_utc
from lxgpu.model.quota import Change, Override, Policy, Terms, Total
from lxgpu.model.rules import CardRule, Mode
from lxgpu.units import format_duration

UnixGroups = Callable[[str], Collection[str]]
"""The Unix groups of a person on this host."""

_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_CLOSED_PATHS = (
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
    "/home",
)
_VOLATILE = ("/dev/", "/proc/", "/run/", "/sys/")
_MOST_SLICES = 7
_WEEK_S = 7 * 86400


def references(plain: Mapping[str, Any]) -> Iterator[Finding]:
    """Classes and groups that are named but not there, and what a list names twice."""
    classes = sorted(_mapping(plain, "classes")) or ["normal"]
    for steps, terms in _all_terms(plain):
        name = terms.get("class")
        if isinstance(name, str) and name not in classes:
            yield Finding((*steps, "class"), f"there is no class {name}{did_you_mean(name, classes)}")
    if "normal" not in classes and "class" not in _mapping(plain, "defaults"):
        at: Steps = ("defaults",) if "defaults" in plain else ("classes",)
        yield Finding(at, f"defaults.class must be given: {', '.join(classes)}", at_key=True)
    groups = sorted(_mapping(plain, "groups"))
    for name, entry in _mapping(plain, "data").items():
        yield from _known_groups(("data", name, "groups"), _mapping({"data": entry}, "data").get("groups"), groups)
    for number, override in enumerate(_list(plain, "overrides")):
        for name in _mapping(override if isinstance(override, dict) else {}, "groups"):
            if name not in groups:
                hint = did_you_mean(name, groups)
                yield Finding(("overrides", number, "groups", name), f"there is no group {name}{hint}", at_key=True)
    yield from _twice(plain, ())


def _known_groups(steps: Steps, names: object, groups: list[str]) -> Iterator[Finding]:
    for number, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str) and name not in groups:
            yield Finding((*steps, number), f"there is no group {name}{did_you_mean(name, groups)}")


def _all_terms(plain: Mapping[str, Any]) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Every level of a quota in the file and the way to it."""
    places: list[tuple[Steps, object]] = [((), plain)]
    places += [(("overrides", number), override) for number, override in enumerate(_list(plain, "overrides"))]
    for steps, value in places:
        entry = value if isinstance(value, dict) else {}
        yield (*steps, "defaults"), _mapping(entry, "defaults")
        for name in _mapping(entry, "users"):
            yield (*steps, "users", name), _mapping(entry["users"], name)
        for name in _mapping(entry, "groups"):
            yield (*steps, "groups", name, "each"), _mapping(_mapping(entry["groups"], name), "each")


def _twice(value: object, steps: Steps) -> Iterator[Finding]:
    """Texts that stand twice in one list of names; MIG slices may, and what is no list is looked into."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != "slices":
                yield from _twice(inner, (*steps, name))
    if isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, str) and inner in value[:number]:
                yield Finding((*steps, number), f"{inner} stands twice in this list")
            yield from _twice(inner, (*steps, number))


def _mapping(plain: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = plain.get(name)
    return value if isinstance(value, dict) else {}


def _list(plain: Mapping[str, Any], name: str) -> list[Any]:
    value = plain.get(name)
    return value if isinstance(value, list) else []


def relations(policy: Policy, numbers: list[int]) -> Iterator[Finding]:
    """Values that contradict each other; `numbers` are the places of the overrides in the file."""
    yield from _classes(policy)
    yield from _levels(policy)
    yield from _bookings(policy)
    yield from _forecast(policy)
    for name, rule in policy.rules.cards.items():
        yield from _card(name, rule, policy)
    yield from _data(policy)
    yield from _overrides(policy, numbers)


def _classes(policy: Policy) -> Iterator[Finding]:
    for name, entry in policy.classes.items():
        threshold = entry.preemption_threshold
        if threshold is None:
            continue
        at: Steps = ("classes", name, "preemption_threshold")
        if not entry.preemptible:
            yield Finding(at, "has no effect, since preemptible is false")
        elif threshold <= entry.priority:
            yield Finding(at, f"has no effect: only classes above {entry.priority}, its priority, may take anyway")


def _levels(policy: Policy) -> Iterator[Finding]:
    base = policy.defaults.limit or 0
    best = max([base, *(group.each.limit or 0 for group in policy.groups.values())])
    yield from _guarantee(("defaults",), policy.defaults, base)
    for name, terms in policy.users.items():
        yield from _guarantee(("users", name), terms, best)
    for name, group in policy.groups.items():
        yield from _guarantee(("groups", name, "each"), group.each, base)
        if group.total.limit is not None and group.total.guaranteed > group.total.limit:
            at: Steps = ("groups", name, "total", "guaranteed")
            yield Finding(at, f"{group.total.guaranteed} is above the limit of {group.total.limit}")


def _guarantee(steps: Steps, terms: Terms, otherwise: int) -> Iterator[Finding]:
    limit = otherwise if terms.limit is None else terms.limit
    if terms.guaranteed is not None and terms.guaranteed > limit:
        yield Finding((*steps, "guaranteed"), f"{terms.guaranteed} is above the limit of {limit}")


def _bookings(policy: Policy) -> Iterator[Finding]:
    rules = policy.rules.bookings
    for name, value in (("longest", rules.longest_s), ("free_window", rules.free_window_s)):
        if value > rules.horizon_s:
            text = f"{format_duration(value)} is longer than the horizon of {format_duration(rules.horizon_s)}"
            yield Finding(("reservations", name), text)


def _forecast(policy: Policy) -> Iterator[Finding]:
    if policy.rules.forecast.half_life_s < _WEEK_S:
        said = format_duration(policy.rules.forecast.half_life_s)
        yield Finding(("forecast", "half_life"), f"{said} is too short to learn the hours of a week: from 1w on")


def _card(name: str, rule: CardRule, policy: Policy) -> Iterator[Finding]:
    slices = rule.slices
    if rule.mode is Mode.MIG and not slices:
        yield Finding(("gpus", name), "mode mig needs slices, as [3g.20gb, 2g.10gb, 2g.10gb]", at_key=True)
    if rule.mode is not Mode.MIG and slices:
        yield Finding(("gpus", name, "slices"), f"only mode mig has slices, not {rule.mode}")
    parts = sum(int(profile[0]) for profile in slices)
    if parts > _MOST_SLICES:
        yield Finding(("gpus", name, "slices"), f"they add up to {parts}g, and a card has {_MOST_SLICES}g at most")
    if any(other != name and other.rstrip("*") == name.rstrip("*") for other in policy.rules.cards):
        yield Finding(("gpus", name), "the same card is named twice", at_key=True)


def _data(policy: Policy) -> Iterator[Finding]:
    places: dict[str, str] = {}
    for name, data in policy.data.items():
        at = data.at.rstrip("/") or "/"
        for path, key in {data.at: "at", data.path: "path"}.items():
            if (path.rstrip("/") or "/") in _CLOSED_PATHS:
                yield Finding(("data", name, key), f"{path} belongs to the system")
        if at.startswith(_VOLATILE):
            yield Finding(("data", name, "at"), f"{at} is hidden inside a container by what the system mounts there")
        if at in places:
            yield Finding(("data", name), f"{at} is the place of {places[at]} already", at_key=True)
        places.setdefault(at, name)


def _overrides(policy: Policy, numbers: list[int]) -> Iterator[Finding]:
    for place, override in enumerate(policy.overrides):
        steps: Steps = ("overrides", numbers[place])
        if override.end <= override.start:
            yield Finding((*steps, "until"), f"{format_utc(override.end)} is not after {format_utc(override.start)}")
            continue
        for name in override.groups:
            total = policy.group_total(name, override.start) if name in policy.groups else Total()
            if total.limit is not None and total.guaranteed > total.limit:
                text = f"the guarantee of {total.guaranteed} is above the limit of {total.limit} then"
                yield Finding((*steps, "groups", name), text)
        for earlier, other in enumerate(policy.overrides[:place]):
            if override.start < other.end and other.start < override.end:
                for what in sorted(_touched(override) & _touched(other)):
                    text = f"changes {what}, and so does overrides[{numbers[earlier]}] at the same time"
                    yield Finding(steps, text)


def _touched(override: Override) -> set[str]:
    """Names of the values that an override changes."""
    found = {f"defaults.{name}" for name in override.defaults.said()}
    for name, terms in override.users.items():
        found |= {f"users.{name}.{term}" for term in terms.said()}
    for name, change in override.groups.items():
        found |= {f"groups.{name}.each.{term}" for term in change.each.said()}
        found |= {f"groups.{name}.total.{key}" for key in _totals(change)}
    return found


def _totals(change: Change) -> set[str]:
    return {key for key in ("guaranteed", "limit") if getattr(change, key) is not None}


def guarantees(policy: Policy, numbers: list[int], *, cards: int, unix_groups: UnixGroups) -> Iterator[Finding]:
    """Guarantees that sum above the cards, now and whenever an override starts.

    A group's guarantee covers its members' own; those of people whom the file does not name are the defaults' and
    cannot be counted, so that only what is surely promised is summed.
    """
    moments = [_FIRST_MOMENT, *(override.start for override in policy.overrides)]
    for place, now in enumerate(moments):
        promised = _promised(policy, now, unix_groups)
        total = sum(promised.values())
        if total > cards:
            what = ", ".join(f"{'.'.join(map(str, steps[:2]))} {count}" for steps, count in promised.items() if count)
            at = ("overrides", numbers[place - 1]) if place else list(promised)[-1]
            yield Finding(at, f"guarantees add up to {total} cards, and there are {cards}: {what}")
            return


def _promised(policy: Policy, now: datetime, unix_groups: UnixGroups) -> dict[Steps, int]:
    """Cards promised to each group and to each person outside of them, in the order of the file."""
    promised: dict[Steps, int] = {}
    own: dict[str, int] = {}
    for name in policy.groups:
        total = policy.group_total(name, now).guaranteed
        if total:
            promised["groups", name, "total", "guaranteed"] = total
            own[name] = 0
    named = {member for group in policy.groups.values() for member in group.members if member[0] not in "@*"}
    for person in [*policy.users, *sorted(named - set(policy.users))]:
        groups = policy.groups_of(person, unix_groups(person))
        count = policy.entitlement(person, groups, now).guaranteed
        covering = [name for name in own if name in groups]
        if not count:
            continue
        if covering:
            own[covering[0]] += count
        else:
            promised["users", person, "guaranteed"] = count
    for name, count in own.items():
        steps: Steps = ("groups", name, "total", "guaranteed")
        promised[steps] = max(promised[steps], count)
    return promised
