"""From the plain values of a checked policy file to the model; no pydantic, so that it is cheap.

Everything here takes for granted that `lxgpu.config.policy` found no mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from lxgpu.instants import load_zone, parse_day, parse_utc
from lxgpu.model.quota import BASE_TERMS, Change, Group, Override, Policy, Terms, Total
from lxgpu.model.rules import (
    AlertRules,
    Allowance,
    BookingRules,
    BorrowRules,
    CardRule,
    ForecastRules,
    ForecastUse,
    HostRules,
    IdleRules,
    IdleWhen,
    MemoryGuard,
    Mode,
    PageRules,
    PreemptionRules,
    PriorityClass,
    Rules,
    SharedData,
    SharingRules,
    TakeBy,
)
from lxgpu.units import parse_count_per, parse_duration, parse_duration_per, parse_percent, parse_size

Plain = Mapping[str, Any]
"""A mapping as the file has it: text, numbers, lists and mappings."""

_DATE_LENGTH = len("2027-05-01")


def build_policy(plain: Plain) -> Policy:
    """Turns the values of policy.yaml into a `Policy`; what the file leaves out has the model's defaults."""
    zone = load_zone(plain.get("timezone", "UTC"))
    said = _pick(plain, {"timezone": str, "contact": str, "admins": tuple})
    if plain.get("classes"):
        said["classes"] = {name: _class(name, entry) for name, entry in plain["classes"].items()}
    return Policy(
        defaults=build_terms(plain.get("defaults"), zone).over(BASE_TERMS),
        groups={name: _group(name, entry, zone) for name, entry in _section(plain, "groups").items()},
        users={name: build_terms(entry, zone) for name, entry in _section(plain, "users").items()},
        data={name: _data(name, entry) for name, entry in _section(plain, "data").items()},
        overrides=tuple(_override(entry, zone) for entry in plain.get("overrides", [])),
        rules=_rules(plain),
        **said,
    )


def build_terms(plain: Plain | None, zone: tzinfo) -> Terms:
    """Turns one level of a quota into `Terms`."""
    entry = plain or {}
    values = _pick(
        entry,
        {
            "guaranteed": int,
            "limit": int,
            "weight": float,
            "cpu": int,
            "processes": int,
            "mail": str,
            "lend_idle": bool,
        },
    )
    values |= _renamed(
        entry,
        {
            "class": ("class_name", str),
            "lease": ("lease_s", parse_duration),
            "retain": ("retain_s", parse_duration),
            "memory": ("memory_bytes", parse_size),
            "disk": ("disk_bytes", parse_size),
            "gpu_hours": ("gpu_hours", _count_per),
            "until": ("until", lambda text: moment(text, zone)),
        },
    )
    per_gpu = _section(entry, "per_gpu")
    values |= _renamed(per_gpu, {"cpu": ("per_gpu_cpu", int), "memory": ("per_gpu_memory_bytes", parse_size)})
    return Terms(**values)


def moment(text: str, zone: tzinfo) -> datetime:
    """A date (its first moment in the zone) or an RFC 3339 time, in UTC."""
    return parse_day(text, zone=zone) if len(text) == _DATE_LENGTH else parse_utc(text)


def _class(name: str, entry: Plain) -> PriorityClass:
    values = _pick(
        entry,
        {
            "priority": int,
            "preemptible": bool,
            "who": tuple,
            "max_gpus": int,
            "preemption_threshold": int,
            "borrow": bool,
        },
    )
    values |= _seconds(entry, "min_runtime", "grace", "term_wait")
    values |= _renamed(entry, {"max_preemptions": ("max_preemptions", _count_per)})
    return PriorityClass(name=name, **values)


def _group(name: str, entry: Plain | None, zone: tzinfo) -> Group:
    entry = entry or {}
    total = _section(entry, "total")
    return Group(
        name=name,
        members=tuple(entry.get("members", ())),
        total=Total(guaranteed=total.get("guaranteed", 0), limit=total.get("limit")),
        each=build_terms(entry.get("each"), zone),
        managers=tuple(entry.get("managers", ())),
    )


def _override(entry: Plain, zone: tzinfo) -> Override:
    groups = {}
    for name, change in _section(entry, "groups").items():
        total = _section(change, "total")
        groups[name] = Change(
            guaranteed=total.get("guaranteed"), limit=total.get("limit"), each=build_terms(change.get("each"), zone)
        )
    return Override(
        start=moment(entry["from"], zone),
        end=moment(entry["until"], zone),
        groups=groups,
        users={name: build_terms(terms, zone) for name, terms in _section(entry, "users").items()},
        defaults=build_terms(entry.get("defaults"), zone),
        note=entry.get("note", ""),
    )


def _data(name: str, entry: Plain) -> SharedData:
    return SharedData(
        name=name,
        path=entry["path"],
        at=entry.get("at", entry["path"]),
        read_only=entry.get("mode", "ro") == "ro",
        groups=tuple(entry.get("groups", ())),
    )


def _rules(plain: Plain) -> Rules:
    return Rules(
        idle=_idle(_section(plain, "idle")),
        preemption=_preemption(_section(plain, "preemption")),
        bookings=_bookings(_section(plain, "reservations")),
        sharing=(sharing := _sharing(_section(plain, "sharing"))),
        hosts=_hosts(_section(plain, "hosts")),
        forecast=_forecast(_section(plain, "forecast")),
        alerts=AlertRules(**_seconds(_section(plain, "alerts"), "idle", "again")),
        page=PageRules(**_pick(_section(plain, "page"), {"public": bool})),
        cards={name.replace("…", "*"): _card(entry, sharing) for name, entry in _section(plain, "gpus").items()},
    )


def _idle(entry: Plain) -> IdleRules:
    values = _seconds(entry, "window", "protect_ssh", "protect_memory")
    values |= _renamed(
        entry,
        {
            "below": ("below_percent", parse_percent),
            "coverage": ("coverage_percent", parse_percent),
            "when": ("when", IdleWhen),
            "warn": ("warn_s", _far_first),
            "keep": ("keep", lambda text: Allowance(*parse_duration_per(text))),
        },
    )
    return IdleRules(**values)


def _preemption(entry: Plain) -> PreemptionRules:
    values = _pick(entry, {"stop_stuck": bool}) | _seconds(entry, "fence_timeout")
    values |= _renamed(entry, {"on_preempt": ("on_preempt", lambda ways: tuple(TakeBy(way) for way in ways))})
    return PreemptionRules(**values)


def _bookings(entry: Plain) -> BookingRules:
    values = _pick(entry, {"max_gpus": int, "open_gpu_hours": int})
    values |= _seconds(entry, "horizon", "longest", "no_show", "free_window", "half_life", "claim_life")
    values |= _seconds(entry, "bind_before", "give_up_after") | _renamed(entry, {"notice": ("notice_s", _far_first)})
    return BookingRules(**values)


def _sharing(entry: Plain) -> SharingRules:
    timeshare = _section(entry, "timeshare")
    values = _pick(entry, {"default": Mode}) | _pick(timeshare, {"slots": int, "memory_guard": MemoryGuard})
    return SharingRules(borrow=_borrow(_section(entry, "borrow")), **values)


def _borrow(entry: Plain) -> BorrowRules:
    share = str(entry.get("reserve", "%")).endswith("%")
    reserve = ("reserve_percent", parse_percent) if share else ("reserve_bytes", parse_size)
    return BorrowRules(**_seconds(entry, "idle", "yield_end"), **_renamed(entry, {"reserve": reserve}))


def _card(entry: Plain, sharing: SharingRules) -> CardRule:
    mode = Mode(entry["mode"])
    slots = entry.get("slots", sharing.slots) if mode is Mode.TIMESHARE else 1
    return CardRule(mode=mode, slots=slots, slices=tuple(entry.get("slices", ())))


def _hosts(entry: Plain) -> HostRules:
    keep_free = _section(entry, "keep_free")
    values = _pick(entry, {"memory_overcommit": float})
    values |= _renamed(entry, {"pool_warn": ("pool_warn_percent", parse_percent)})
    values |= _renamed(
        keep_free,
        {"memory": ("keep_free_memory_bytes", parse_size), "pool": ("keep_free_pool_percent", parse_percent)},
    )
    return HostRules(**values)


def _forecast(entry: Plain) -> ForecastRules:
    return ForecastRules(**_pick(entry, {"use": ForecastUse}), **_seconds(entry, "half_life"))


def _section(plain: Plain | None, name: str) -> dict[str, Any]:
    """A mapping inside; one without lines is empty."""
    return (plain or {}).get(name) or {}


def _pick(entry: Plain, kinds: Mapping[str, Callable[[Any], object]]) -> dict[str, Any]:
    return {name: kind(entry[name]) for name, kind in kinds.items() if name in entry}


def _renamed(entry: Plain, kinds: Mapping[str, tuple[str, Callable[[Any], object]]]) -> dict[str, Any]:
    return {new: kind(entry[name]) for name, (new, kind) in kinds.items() if name in entry}


def _seconds(entry: Plain, *names: str) -> dict[str, Any]:
    return {f"{name}_s": parse_duration(entry[name]) for name in names if name in entry}


def _count_per(text: str) -> Allowance:
    return Allowance(*parse_count_per(text))


def _far_first(texts: list[str]) -> tuple[int, ...]:
    return tuple(sorted({parse_duration(text) for text in texts}, reverse=True))
