"""What each group of a workload owns of the lab: whole servers for a fixed division, cards as a quota or guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import EVERYBODY, Policy
from lxgpu.simulate.jobs import Lab, Workload


def owned_servers(workload: Workload, lab: Lab, policy: Policy | None = None) -> dict[str, int]:
    """So many whole servers for each group, all of the lab's: at least one each.

    In proportion to what the policy guarantees the groups, or to the GPU-seconds they ask for where it guarantees
    nothing or is not given.

    Raises:
        LxgpuError: there are more groups than servers.
    """
    demand = demand_by_group(workload)
    if len(demand) > lab.servers:
        brief = f"{len(demand)} groups cannot have a server each of {lab.servers}"
        raise LxgpuError("usage", brief, fix="Simulate more servers, or leave out the rule that divides them.")
    promised = guaranteed(workload, policy)
    return divided(promised if any(promised.values()) else demand, lab.servers, least=1)


def owned_cards(workload: Workload, lab: Lab, policy: Policy | None = None) -> dict[str, int]:
    """So many cards for each group: what the policy guarantees it, or without one its whole servers' cards.

    Where there are more groups than servers the cards are divided like servers, and some may have none.
    """
    if policy is not None:
        return guaranteed(workload, policy)
    demand = demand_by_group(workload)
    if len(demand) > lab.servers:
        return divided(demand, lab.cards)
    return {name: count * lab.gpus_per_server for name, count in owned_servers(workload, lab).items()}


def demand_by_group(workload: Workload) -> dict[str, float]:
    """The GPU-seconds that each group asks for, by name."""
    demand: dict[str, float] = {}
    for job in workload.jobs:
        demand[job.group] = demand.get(job.group, 0.0) + job.demand_gpu_s
    return dict(sorted(demand.items()))


def guaranteed(workload: Workload, policy: Policy | None) -> dict[str, int]:
    """The cards that a policy guarantees each group of the workload when it starts; none to one it does not know.

    That is what it guarantees the group together or, if that is more, what it guarantees the members one by one.
    """
    found = dict.fromkeys(demand_by_group(workload), 0)
    if policy is None:
        return found
    each: Counter[str] = Counter()
    for person, group in _at_home(workload, policy).items():
        groups = policy.groups_of(person, ()) | {group}
        each[group] += policy.entitlement(person, groups, workload.start).guaranteed
    for name in found.keys() & policy.groups.keys():
        found[name] = max(policy.group_total(name, workload.start).guaranteed, each[name])
    return found


def _at_home(workload: Workload, policy: Policy) -> dict[str, str]:
    """Of each member the one group in which they count: where they ask first, else the first by name with them in it.

    Whom a group means by `*` or `@unix-group` is not known; whoever asks under such a group is taken for one of them.
    """
    asks: dict[str, str] = {}
    for person, name in dict.fromkeys((job.owner, job.group) for job in workload.jobs):
        members = policy.groups[name].members if name in policy.groups else ()
        if person in members or any(map(_many, members)):
            asks.setdefault(person, name)
    named: dict[str, str] = {}
    for name, group in sorted(policy.groups.items()):
        named |= {person: name for person in group.members if not _many(person) and person not in named}
    return named | asks


def _many(member: str) -> bool:
    return member == EVERYBODY or member.startswith("@")


def divided(weights: Mapping[str, float], total: int, least: int = 0) -> dict[str, int]:
    """A number of things in proportion to the weights, by largest remainder, and at least so many each.

    Of equal ones the first gets more.
    """
    whole = sum(weights.values())
    fair = {name: total * (weight / whole if whole else 1 / len(weights)) for name, weight in weights.items()}
    given = {name: max(least, int(part)) for name, part in fair.items()}

    def short(name: str) -> float:
        return fair[name] - given[name]

    while weights and sum(given.values()) < total:
        given[max(given, key=short)] += 1
    while sum(given.values()) > total:
        given[min((name for name in reversed(given) if given[name] > least), key=short)] -= 1
    return given
