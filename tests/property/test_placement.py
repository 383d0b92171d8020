"""What must hold of every placement: nothing lent twice, no order matters, one free card more never hurts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import DeviceNode, Gpu, Reading, Readings, Slot
from lxgpu.model.operation import Identity
from lxgpu.model.quota import Policy
from lxgpu.model.request import GpuRequest
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.placement import obstacles, place

NOW = datetime(2027, 1, 1, tzinfo=UTC)
BOOT = "boot"
TAKEN = ("held", "promised", "closed", "quarantined", "sick", "silent")
# A card that is silent is lost as well, and NVML cannot even tell its UUID any more.
MODELS = ("NVIDIA A100", "NVIDIA T4")


def card(number: int, model: str, node: int) -> Gpu:
    """A card whose number is in its UUID, address and nodes."""
    return Gpu(
        uuid=f"GPU-{number:04d}",
        pci=f"0000:{number:02x}:00.0",
        model=model,
        host="h",
        nodes=(DeviceNode(f"nvidia{number}", 195, number),),
        numa_node=node,
    )


def world(cards: list[tuple[str, int, str, bool]], *, order: list[int] | None = None) -> Snapshot:
    """A host with cards of (model, NUMA node, what is against it or "", proven); `order` shuffles what is listed."""
    gpus = [card(number, model, node) for number, (model, node, _, _) in enumerate(cards)]
    rows: dict[str, list[object]] = {"assignments": [], "slots": [], "cards": []}
    readings = []
    for gpu, (_, _, against, proven) in zip(gpus, cards, strict=True):
        slot = Slot(gpu.uuid)
        record = SlotRecord(slot=slot, host="h", proven_at=NOW if proven else None, boot_id=BOOT)
        if against in {"held", "promised"}:
            state = AssignmentState.ACTIVE if against == "held" else AssignmentState.PLANNED
            rows["assignments"].append(Assignment(gpu.uuid, slot, "somebody", state, NOW))
        elif against == "closed":
            rows["cards"].append(Card(gpu.uuid, "h", gpu.pci, gpu.model, None, NOW, closed="fan", closed_by="root"))
        elif against == "quarantined":
            record = replace(record, quarantine="held by nobody knows whom")
        fault = "lost" if against in {"sick", "silent"} else None
        readings.append(Reading("" if against == "silent" else gpu.uuid, NOW, fault=fault))
        rows["slots"].append(record)
    shuffled = [gpus[index] for index in order] if order else gpus
    seen = Observation("h", BOOT, NOW, gpus=tuple(shuffled), readings=Readings(items=tuple(readings)))
    records = Records(version=1, identity=Identity("i", 1), **{name: tuple(items) for name, items in rows.items()})
    return Snapshot(now=NOW, records=records, seen=seen, policy=Policy())


CARDS = st.lists(
    st.tuples(st.sampled_from(MODELS), st.integers(0, 1), st.sampled_from(("", "", *TAKEN)), st.booleans()),
    min_size=1,
    max_size=8,
)
COUNTS = st.integers(1, 8)
WANTED = st.sampled_from(("*", "A100", "*T4*"))


def granted(snapshot: Snapshot, count: int, model: str) -> tuple[Slot, ...]:
    """The slots, or nothing when there is a reason against it."""
    request = GpuRequest(instance="me", owner="me", more=count, model=model)
    return tuple(item for item in place(snapshot, request) if isinstance(item, Slot))


@given(cards=CARDS, count=COUNTS, model=WANTED)
def test_only_free_cards_that_fit_are_granted_each_once_all_or_none(
    cards: list[tuple[str, int, str, bool]], count: int, model: str
) -> None:
    """Nobody sits on half of what they asked for, and nothing is lent that anything stands against."""
    snapshot = world(cards)
    slots = granted(snapshot, count, model)
    assert len(slots) in {0, count}
    assert len(set(slots)) == len(slots)
    against = obstacles(snapshot.records, snapshot.seen)
    assert not {slot.gpu for slot in slots} & set(against)
    models = {gpu.uuid: gpu.model for gpu in snapshot.seen.gpus}
    assert all(model.strip("*").lower() in models[slot.gpu].lower() for slot in slots)


@given(cards=CARDS, count=COUNTS, model=WANTED, data=st.data())
def test_the_order_of_what_is_seen_changes_nothing(
    cards: list[tuple[str, int, str, bool]], count: int, model: str, data: st.DataObject
) -> None:
    """The same world told in another order gives the same cards."""
    order = data.draw(st.permutations(range(len(cards))))
    assert granted(world(cards), count, model) == granted(world(cards, order=order), count, model)


@given(cards=CARDS, count=COUNTS, model=WANTED, node=st.integers(0, 1))
def test_one_free_card_more_never_makes_the_answer_worse(
    cards: list[tuple[str, int, str, bool]], count: int, model: str, node: int
) -> None:
    """What was granted stays grantable."""
    if granted(world(cards), count, model):
        assert granted(world([*cards, (MODELS[0], node, "", True)]), count, model)


@given(cards=CARDS, count=COUNTS)
def test_cards_that_fit_on_one_numa_node_come_from_one(cards: list[tuple[str, int, str, bool]], count: int) -> None:
    """Several cards are as near to each other as they can be."""
    snapshot = world(cards)
    slots = granted(snapshot, count, "*")
    nodes = {gpu.uuid: gpu.numa_node for gpu in snapshot.seen.gpus}
    free = [
        node for node, (_, _, against, _) in zip((nodes[uuid] for uuid in nodes), cards, strict=True) if not against
    ]
    if slots and any(free.count(node) >= count for node in (0, 1)):
        assert len({nodes[slot.gpu] for slot in slots}) == 1
