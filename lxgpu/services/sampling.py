"""Readings kept as samples at each look, and the judgement on every held card by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import ATTACHED, Assignment
from lxgpu.model.gpu import Reading, Slot, is_part
from lxgpu.model.instance import Power
from lxgpu.model.quota import Policy
from lxgpu.model.rules import IdleRules
from lxgpu.model.snapshot import Observation, Records
from lxgpu.model.usage import IdleVerdict, Sample, Use
from lxgpu.policy.borrowing import without_borrowers
from lxgpu.policy.idleness import LOOK_S, judge, pace
from lxgpu.policy.lent import lent
from lxgpu.services.site import Site

THIN_EVERY = timedelta(hours=1)
MORE = 1.25
"""So many windows are kept in memory: a look must lie before the window for it to be seen whole."""


def take_samples(site: Site, seen: Observation, records: Records) -> None:
    """Keep one sample of each card of this look, and of each part of one, in one batch; now and then merge old ones.

    A card that is lost, hangs or is not told of gets a sample that says nothing, so that nobody takes it for idle.
    Nothing is kept when NVML was not asked.
    """
    if seen.readings is None:
        return
    seen = without_borrowers(seen, records)
    of_cards = {reading.uuid: reading for reading in seen.readings.items if reading.uuid} if seen.readings else {}
    seen = lent(seen, records)
    holders: dict[str, list[str]] = {}
    for row in records.assignments:
        if row.live:
            holders.setdefault(row.slot.gpu, []).append(row.instance)
    of_parts = {reading.uuid: reading for reading in seen.readings.items if reading.uuid} if seen.readings else {}
    told = {**of_cards, **of_parts}
    cards = dict.fromkeys([*told, *(gpu.card for gpu in seen.gpus), *(gpu.uuid for gpu in seen.gpus)])
    site.inventory.add_samples(
        [_sample(site, seen, uuid, told.get(uuid), holders.get(uuid, [])) for uuid in cards],
    )
    _thin(site, seen.at)


def judge_all(
    site: Site,
    seen: Observation,
    records: Records,
    policy: Policy,
    *,
    period_s: float = LOOK_S,
) -> Mapping[Slot, IdleVerdict]:
    """The judgement on every held slot, by the samples up to this look.

    Args:
        site: where the samples are.
        seen: the look; its time is the time of the judgement.
        records: who holds what.
        policy: what idle means.
        period_s: seconds between two looks, at most.
    """
    held = [row for row in records.assignments if row.state in ATTACHED and row.since is not None]
    if not held:
        return {}
    rules, now = policy.rules.idle, seen.at
    site.watch.refresh(site.inventory, since=now - timedelta(seconds=MORE * rules.window_s + period_s), now=now)
    verdicts = {}
    for row in held:
        samples = site.watch.samples.get(row.slot.gpu, [])
        ask = partial(
            judge,
            since_attach=row.since or row.created_at,
            rules=rules,
            keeps=[keep for keep in records.keeps if keep.instance == row.instance],
            now=now,
            period_s=pace(samples, window_s=rules.window_s, least_s=period_s),
            not_before=site.watch.not_before,
        )
        verdicts[row.slot] = _verdict(site, row, samples, ask, rules)
    return verdicts


def _verdict(
    site: Site, row: Assignment, samples: list[Sample], ask: Callable[..., IdleVerdict], rules: IdleRules
) -> IdleVerdict:
    """The verdict on one slot; how long it has been idle is remembered, since the samples in memory end sooner."""
    uuid, quiet = row.slot.gpu, site.watch.quiet
    known_for, quiet_since = quiet.get(uuid, ("", None))
    verdict = ask(samples, quiet_since=quiet_since if known_for == row.id else None)
    if verdict.use is Use.IDLE and verdict.since is not None:
        if known_for != row.id and verdict.protected_until is not None:
            # Protection counts from the beginning, which may be older than what this process has read.
            span = timedelta(seconds=rules.window_s + max(rules.protect_memory_s, rules.protect_ssh_s))
            verdict = ask(site.inventory.samples(since=samples[-1].at - span, uuid=uuid))
        quiet[uuid] = (row.id, verdict.since or samples[-1].at)
    else:
        quiet.pop(uuid, None)
    return verdict


def _sample(site: Site, seen: Observation, uuid: str, reading: Reading | None, holders: list[str]) -> Sample:
    holder = holders[0] if len(holders) == 1 else ""
    if reading is None or reading.fault:
        return Sample(at=seen.at, uuid=uuid, utilization_percent=None, memory_used_bytes=None, instance=holder)
    busy = (reading.utilization_percent or 0) > 0
    listed = reading.processes
    return Sample(
        at=seen.at,
        uuid=uuid,
        utilization_percent=reading.utilization_percent,
        memory_used_bytes=_work_memory(reading),
        processes=None if listed is None else sum(one.kind == "compute" for one in listed),
        instance=holder,
        login=_login(site, seen, holder) if holder and not busy else None,
    )


def _work_memory(reading: Reading) -> int | None:
    """The memory in use without what display servers take, which is no use; of a part, all that its holder takes."""
    if reading.memory_used_bytes is None or is_part(reading.uuid):
        return reading.memory_used_bytes
    drawn = sum(one.memory_bytes or 0 for one in reading.processes or () if one.kind == "graphics")
    return max(0, reading.memory_used_bytes - drawn)


def _login(site: Site, seen: Observation, name: str) -> bool | None:
    """Whether an SSH session of the container is open; None when that cannot be told now."""
    sighting = seen.sighting(name)
    if sighting is None or sighting.power is not Power.RUNNING:
        return None if sighting is None else False
    try:
        init = _init(site, name, sighting.init_pid)
        return None if init is None else site.probe.logins(init) > 0
    except LxgpuError:  # it went down just now, or LXD does not answer: its readings alone are less for it
        site.watch.inits.pop(name, None)
        return None


def _init(site: Site, name: str, told: int | None) -> int | None:
    """The init of a container; a list of LXD's does not tell it, so it is asked for once and remembered."""
    known = site.watch.inits
    if told is None and name not in known:
        alone = site.engine.instance(name)
        told = alone.init_pid if alone is not None else None
    if told is not None:
        known[name] = told
    return known.get(name)


def _thin(site: Site, now: datetime) -> None:
    """About once an hour, in a process that lives so long."""
    if site.watch.thinned_at is None:
        site.watch.thinned_at = now
    elif now - site.watch.thinned_at >= THIN_EVERY:
        site.watch.thinned_at = now
        site.inventory.thin_samples(now)
