"""May they have it at all: quota, class and the person's own end. Every refusal at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lxgpu.figures import n_gpus
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import is_part, profile_of
from lxgpu.model.layout import in_parts, kind
from lxgpu.model.plan import Reason
from lxgpu.model.quota import Entitlement, Policy
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.lookup import parts_by_instance, requests_by_owner
from lxgpu.policy.tables import once
from lxgpu.policy.tally import tally

_MANY = 20_000
"""So many entitlements are remembered for a policy: a decision asks for the same people's again and again."""


def entitlement(snapshot: Snapshot, person: str) -> Entitlement:
    """What the policy gives a person now."""
    policy, unix_groups = snapshot.policy, snapshot.unix_groups.get(person, frozenset())
    known, key = _known(policy), (person, unix_groups, policy.in_force(snapshot.now))
    found = known.get(key)
    if found is None:
        if len(known) >= _MANY:
            known.clear()
        found = known[key] = policy.entitlement(person, policy.groups_of(person, unix_groups), snapshot.now)
    return found


@once
def _known(_policy: Policy) -> dict[tuple[str, frozenset[str], tuple[int, ...]], Entitlement]:
    """What was worked out from a policy, which never changes itself."""
    return {}


def admit(snapshot: Snapshot, request: GpuRequest) -> tuple[Reason, ...]:
    """Why the policy refuses a request for cards; empty when it does not.

    Codes: `person_ended`, `unknown_class`, `class_not_allowed`, `over_limit`, `over_class_limit`, `over_group_limit`,
    `one_part`.
    """
    policy, now = snapshot.policy, snapshot.now
    entitled = entitlement(snapshot, request.owner)
    reasons: list[Reason] = []
    if entitled.ended(now):
        reasons.append(Reason("person_ended", f"{request.owner}'s time ended on {entitled.until:%Y-%m-%d}"))
    name = request.class_name or entitled.class_name
    chosen = policy.classes.get(name)
    if chosen is None:
        known = ", ".join(sorted(policy.classes))
        return (*reasons, Reason("unknown_class", f"there is no class {name!r}; the policy has {known}"))
    if not _may_use(snapshot, name, request.owner):
        reasons.append(Reason("class_not_allowed", f"{request.owner} may not use class {name}"))
    if request.more <= 0:
        return tuple(reasons)
    reasons += _parts(snapshot, request)
    held = cards_of(snapshot, request.owner)
    if held + request.more > entitled.limit:
        reasons.append(
            Reason(
                "over_limit",
                f"{request.owner} may hold {n_gpus(entitled.limit)}, holds {held}, asks for {request.more} more",
            )
        )
    in_class = cards_of(snapshot, request.owner, class_name=name)
    if chosen.max_gpus is not None and in_class + request.more > chosen.max_gpus:
        reasons.append(
            Reason(
                "over_class_limit",
                f"one person may hold {n_gpus(chosen.max_gpus)} in class {name}, {in_class} are held",
            )
        )
    return (*reasons, *_group_reasons(snapshot, request, entitled))


def _parts(snapshot: Snapshot, request: GpuRequest) -> Iterator[Reason]:
    """One part of a card in a container: what it does on one part of a card cannot be told from what on another."""
    parts = in_parts(request.model) or any(map(is_part, request.uuids))
    if not parts:
        return
    if request.more > 1:
        yield Reason("one_part", f"a container has one part of a card at a time, and not {request.more}")
        return
    mine = parts_by_instance(snapshot.records.assignments).get(request.instance, ())
    if any(row.state is not AssignmentState.QUARANTINED for row in mine):
        yield Reason("one_part", f"{request.instance} has a part of a card already, and no container has two")
        return
    queued = requests_by_owner(snapshot.records.reservations).get(request.owner, ())
    asked = {kind(request.model).part, *map(profile_of, request.uuids)} - {""}
    waits = {kind(row.model).part for row in queued if row.instance == request.instance} - {"", *asked}
    if waits and any(map(profile_of, waits | asked)):  # a slice of another kind would keep it waiting for ever
        yield Reason(
            "one_part", f"{request.instance} waits for {', '.join(sorted(waits))}, and no container has two parts"
        )


def _may_use(snapshot: Snapshot, class_name: str, person: str) -> bool:
    policy, unix_groups = snapshot.policy, snapshot.unix_groups.get(person, frozenset())
    known, key = _uses(policy), (class_name, person, unix_groups, policy.in_force(snapshot.now))
    if key not in known:
        if len(known) >= _MANY:
            known.clear()
        known[key] = policy.may_use(class_name, person, unix_groups, snapshot.now)
    return known[key]


@once
def _uses(_policy: Policy) -> dict[tuple[str, str, frozenset[str], tuple[int, ...]], bool]:
    """As `_known`, of who may ask in which class."""
    return {}


def cards_of(snapshot: Snapshot, person: str, *, class_name: str = "") -> int:
    """How many slots a person's instances hold or have been promised, in one class or in all."""
    count = tally(snapshot.records)
    return count.had_in.get((person, class_name), 0) if class_name else count.had.get(person, 0)


def _group_reasons(snapshot: Snapshot, request: GpuRequest, entitled: Entitlement) -> list[Reason]:
    reasons = []
    totals = {name: snapshot.policy.group_total(name, snapshot.now).limit for name in entitled.groups}
    bounded = {name: limit for name, limit in totals.items() if limit is not None}
    held = _held_by_groups(snapshot) if bounded else Counter[str]()
    for name, limit in bounded.items():
        if held[name] + request.more > limit:
            asked = f"{request.more} more are asked for"
            text = f"group {name} may hold {n_gpus(limit)} together, holds {held[name]}, {asked}"
            reasons.append(Reason("over_group_limit", text))
    return reasons


def _held_by_groups(snapshot: Snapshot) -> Counter[str]:
    """How many slots the members of each group have and are promised."""
    count: Counter[str] = Counter()
    for person, held in tally(snapshot.records).had.items():
        for name in entitlement(snapshot, person).groups:
            count[name] += held
    return count
