"""Which free cards, if there are enough: the closest together, the already proven ones first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from lxgpu.model.assignment import Assignment
from lxgpu.model.cardnames import n_asked
from lxgpu.model.gpu import MISSING, WHOLE, Gpu, Slot, share_of
from lxgpu.model.layout import in_parts, kind, suits
from lxgpu.model.plan import Reason
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.exclusivity import Holding, holdings
from lxgpu.policy.lookup import by_card, closed_cards, shared_by, slot_records, stuck_cards, unmade_cards
from lxgpu.policy.tables import Found, Latest, once, once_for_each

NO_SLICE = "NVML does not show this slice; the daemon makes it again"
UNMADE = "its MIG slices are to be made or taken away first, which the daemon does"
BY_HAND = "it is in MIG mode, and not by lxgpu"
_FAULTS = {MISSING: NO_SLICE, BY_HAND: f"sick: {BY_HAND}"}


def obstacles(records: Records, seen: Observation) -> dict[str, Reason]:
    """Why a card of the host cannot be lent now, by UUID; one without an entry is free.

    Codes: `held`, `promised`, `closed`, `quarantined`, `sick`, `missing` (a MIG slice that is not there), `foreign`.
    """
    found = unlendable(records, seen)
    had = by_card(records.assignments)
    for row in (row for gpu in seen.gpus for row in had.get(gpu.uuid, ())):
        if row.live:
            found[row.slot.gpu] = Reason("held", f"held by {row.instance}")
        else:
            found.setdefault(row.slot.gpu, Reason("promised", f"promised to {row.instance}"))
    return found


@once
def blocked(snapshot: Snapshot) -> Mapping[str, Reason]:
    """As `obstacles`, found once for each Snapshot."""
    return obstacles(snapshot.records, snapshot.seen)


def had_here(snapshot: Snapshot) -> tuple[object, ...]:
    """All that says who has a host's cards and what stands against them: who holds and is promised each, and the rest.

    Cards that LXD passes without lxgpu may be any.
    """
    records, seen = snapshot.records, snapshot.seen
    had = by_card(records.assignments)
    foreign = records.assignments if holdings(seen) else None
    return (seen, records.slots, records.cards, foreign, *[had.get(gpu.uuid) for gpu in seen.gpus])


def by_host(find: Callable[[Snapshot], Found]) -> Latest[Snapshot, Found]:
    """As a decorator: what is found anew only when the host's cards have changed hands."""
    return Latest(find, key=lambda snapshot: snapshot.seen.host, rests_on=had_here)


@by_host
def free_cards(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """The host's cards that could be lent now: those without an obstacle."""
    had, unfit = by_card(snapshot.records.assignments), unlendable(snapshot.records, snapshot.seen)
    return tuple(gpu for gpu in snapshot.seen.gpus if gpu.uuid not in had and gpu.uuid not in unfit)


def unlendable(records: Records, seen: Observation) -> dict[str, Reason]:
    """As `obstacles`, without what is held or promised: what stands against a card itself."""
    return {**_foreign(records, seen), **_out_of_service(records, seen)}


def _foreign(records: Records, seen: Observation) -> dict[str, Reason]:
    passed = holdings(seen)
    had, lent = (by_card(records.assignments), _lent(seen)) if passed else ({}, {})
    found = {
        holding.uuid: Reason("foreign", f"attached to {holding.instance} (project {holding.project}) without lxgpu")
        for holding in passed
        if not any(_is_of(row, holding) for name in lent[holding.uuid] for row in had.get(name, ()))
    }
    return _of_parts(seen, found)


def _lent(seen: Observation) -> Mapping[str, Sequence[str]]:
    """What is lent of each card, by its UUID."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for gpu in seen.gpus:
        found[gpu.card].append(gpu.uuid)
    return found


def _is_of(row: Assignment, holding: Holding) -> bool:
    """Whether an assignment is why a card is attached; of a divided one each instance needs its own."""
    return row.live and (row.slot.part == WHOLE or row.instance == holding.instance)


def _of_parts(seen: Observation, found: Mapping[str, Reason]) -> dict[str, Reason]:
    """What stands against a card stands against its parts."""
    parts = {gpu.uuid: found[gpu.card] for gpu in seen.gpus if gpu.divided and gpu.card in found} if found else {}
    return {**found, **parts}


def _out_of_service(records: Records, seen: Observation) -> dict[str, Reason]:
    """What NVML, a fence or an admin says against a card; the admin's word comes last and counts."""
    sick, stuck, closed = _sick(seen), stuck_cards(records.slots), closed_cards(records.cards)
    unmade = unmade_cards(records.cards, seen.boot_id)
    if not (sick or stuck or closed or unmade):
        return {}
    found = {
        **{uuid: Reason("missing" if fault == NO_SLICE else "sick", fault) for uuid, fault in sick.items()},
        **{uuid: Reason("missing", UNMADE) for uuid in unmade},
        **{uuid: Reason("quarantined", why) for uuid, why in stuck.items()},
        **{uuid: Reason("closed", f"closed by {row.closed_by}: {row.closed}") for uuid, row in closed.items()},
    }
    return _of_parts(seen, found)


@once_for_each
def _sick(seen: Observation) -> Mapping[str, str]:
    """Cards that NVML cannot read, and why.

    A lost card may not even tell who it is: then each card that LXD shows and no sample names may be that one. While
    NVML is out of order as a whole no card is lent, since none could be proven free again.
    """
    if seen.readings is None:
        return {}
    if seen.readings.error:
        return {gpu.uuid: f"sick: {seen.readings.error}" for gpu in seen.gpus}
    faults = {row.uuid: BY_HAND if row.slices is not None else row.fault for row in seen.readings.items}
    nameless = next((row.fault for row in seen.readings.items if not row.uuid and row.fault), None)
    found = ((gpu.uuid, faults.get(gpu.uuid, nameless)) for gpu in seen.gpus)
    return {uuid: _FAULTS.get(fault, f"sick: NVML says {fault}") for uuid, fault in found if fault}


def place(snapshot: Snapshot, request: GpuRequest) -> tuple[Slot, ...] | tuple[Reason, ...]:
    """The slots to grant, or the reasons why there are none.

    Several cards come from one NUMA node where one has enough of them; of several such nodes the one with the
    fewest free cards, so that large requests find room later. Ties go to proven slots, then by PCI address.
    Codes: `no_such_gpu`, `no_such_model`, `not_free`, `no_capacity`.
    """
    if request.more <= 0:
        return ()
    taken = blocked(snapshot)
    if request.uuids:
        return _exactly(snapshot, request, taken)
    meant = matching((gpu.model for gpu in snapshot.seen.gpus), request.model)
    fitting = [gpu for gpu in snapshot.seen.gpus if gpu.model in meant]
    if snapshot.seen.gpus and not fitting:
        models = ", ".join(sorted({gpu.model for gpu in snapshot.seen.gpus}))
        return (Reason("no_such_model", f"no card's model matches {request.model!r}; there are {models}"),)
    mine = shared_by(snapshot.records.assignments, request.instance) if in_parts(request.model) else frozenset[str]()
    free = [gpu for gpu in fitting if gpu.uuid not in taken and gpu.card not in mine]
    if len(free) < request.more:
        lines = sorted({taken[gpu.uuid].text for gpu in fitting if gpu.uuid in taken})
        text = f"{n_asked(request.more, request.model)} asked for, {len(free)} of {len(fitting)} are free"
        return (Reason("no_capacity", text), *(Reason("no_capacity", line) for line in lines))
    if in_parts(request.model):  # the smallest that will do
        least = min(share_of(gpu.uuid) for gpu in free)
        free = [gpu for gpu in free if share_of(gpu.uuid) == least]
    return tuple(Slot(gpu.uuid) for gpu in nearest(snapshot, free, request.more))


def _exactly(
    snapshot: Snapshot, request: GpuRequest, taken: Mapping[str, Reason]
) -> tuple[Slot, ...] | tuple[Reason, ...]:
    reasons = []
    for uuid in request.uuids:
        if snapshot.seen.gpu(uuid) is None:
            reasons.append(Reason("no_such_gpu", f"the host shows no card {uuid}"))
        elif uuid in taken:
            reasons.append(Reason("not_free", f"{uuid} is {taken[uuid].text}"))
    return tuple(reasons) or tuple(Slot(uuid) for uuid in request.uuids)


def fits(model: str, pattern: str) -> bool:
    """Whether a model's name matches; a pattern without a star may stand anywhere in it ("3090").

    Who asks for a part of a card ("* 1/4") means no whole one, and the other way about.
    """
    wanted = kind(pattern)[0].lower()
    return suits(model, pattern) and fnmatchcase(kind(model)[0].lower(), wanted if "*" in wanted else f"*{wanted}*")


def matching(models: Iterable[str], pattern: str) -> frozenset[str]:
    """Which of the models a pattern means: the one of exactly that name, else all that it fits.

    "NVIDIA RTX 3090" is no "NVIDIA RTX 3090 Ti" where there are both.
    """
    there = frozenset(models)
    return frozenset({pattern}) if pattern in there else frozenset(model for model in there if fits(model, pattern))


def nearest(snapshot: Snapshot, free: list[Gpu], count: int) -> list[Gpu]:
    """Of free cards so many that lie near each other, those that are proven free first.

    Of parts those of the card of which the fewest are free, so that others stay whole or nearly so.
    """
    left = Counter(gpu.card for gpu in free)

    def rank(gpu: Gpu) -> tuple[int, bool, str, str]:
        known = slot_records(snapshot.records.slots).get(Slot(gpu.uuid))
        unproven = known is None or not known.proven(snapshot.seen.boot_id)
        return (left[gpu.card], unproven, gpu.pci, gpu.uuid)

    by_node: dict[int, list[Gpu]] = defaultdict(list)
    for gpu in free:
        by_node[-1 if gpu.numa_node is None else gpu.numa_node].append(gpu)
    enough = [node for node, cards in by_node.items() if len(cards) >= count]
    if enough:
        node = min(enough, key=lambda item: (len(by_node[item]), item))
        return sorted(by_node[node], key=rank)[:count]
    return sorted(free, key=rank)[:count]
