"""Which alerts are to be seen in what the daemon published; pure. What is not known is no alert, and ends none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.rules import Rules
from lxgpu.policy.alerts import Alert, AlertKind, Key, Sight
from lxgpu.services.cardviews import BUSY, IDLE
from lxgpu.services.statusfile import DaemonView, Published
from lxgpu.services.views import InstanceView

LATE_S = 120.0
"""So old the last look may be that came to its end."""
_HIDING = frozenset({"missing", "closed"})
"""A card's health that is told in the place of a quarantine."""
_OF_THE_REST = frozenset((kind, "") for kind in AlertKind if kind is not AlertKind.LOOP_LATE)


def sight(found: Published, rules: Rules) -> Sight:
    """Everything that admins should look at."""
    unknown: set[Key] = set()
    late = late_sight(found.daemon, found.status.host, found.written_at)
    alerts = (*late.alerts, *_policy(found), *_pool(found, rules, unknown), *_cards(found, unknown))
    return Sight((*alerts, *_hoards(found, rules, unknown)), frozenset(unknown))


def late_sight(daemon: DaemonView, host: str, now: datetime) -> Sight:
    """Whether the daemon's looks come late; of all else nothing is known."""
    last = daemon.ticked_at or daemon.started_at
    if not daemon.running or last is None or now - last <= timedelta(seconds=LATE_S):
        return Sight((), _OF_THE_REST)
    return Sight((Alert(AlertKind.LOOP_LATE, host, "; ".join(daemon.troubles), since=last),), _OF_THE_REST)


def _policy(found: Published) -> Iterator[Alert]:
    if not found.daemon.policy.ok:
        yield Alert(AlertKind.POLICY_BROKEN, found.status.host, found.daemon.policy.error or "")


def _pool(found: Published, rules: Rules, unknown: set[Key]) -> Iterator[Alert]:
    pool, full = found.status.pool, 100 - rules.hosts.keep_free_pool_percent
    bounds = {AlertKind.POOL_FILLING: rules.hosts.pool_warn_percent, AlertKind.POOL_FULL: full}
    for kind, percent in bounds.items():
        if pool.used_percent is None:
            unknown.add((kind, ""))
        elif pool.used_percent >= percent:
            yield Alert(kind, pool.name, f"{pool.used_percent:.0f} % of it is used")


def _cards(found: Published, unknown: set[Key]) -> Iterator[Alert]:
    """A slot that its holder could not be proven to have left; else a card in quarantine."""
    stuck = AssignmentState.QUARANTINED.value
    for card in found.gpus:
        why = found.notes.get(card.uuid, "")
        failed = any(slot.holder and slot.state == stuck for slot in card.slots)
        if failed:
            yield Alert(AlertKind.FENCE_FAILED, card.uuid, why, (card.uuid,))
        elif card.health == "quarantined":
            yield Alert(AlertKind.QUARANTINE, card.uuid, why, (card.uuid,))
        elif card.health in _HIDING:
            unknown.add((AlertKind.QUARANTINE, card.uuid))


def _hoards(found: Published, rules: Rules, unknown: set[Key]) -> Iterator[Alert]:
    """Containers whose cards have not worked for long while nobody else finds a free one."""
    kind, long = AlertKind.IDLE_HOARD, timedelta(seconds=rules.alerts.idle_s)
    for one in found.instances:
        since = one.idle.since
        if one.gpus and one.idle.verdict not in {BUSY, IDLE}:
            unknown.add((kind, one.name))
        elif found.status.gpus.free == 0 and one.idle.verdict == IDLE and since and found.written_at - since >= long:
            yield Alert(kind, one.name, gpus=_held(one), since=since)


def _held(one: InstanceView) -> tuple[str, ...]:
    return tuple(held.uuid for held in one.gpus if held.uuid is not None)
