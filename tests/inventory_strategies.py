"""Any rows of the inventory; keys come from small pools, so that rows replace and hinder each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st
from inventory_rows import at

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import Instance, InstanceKind, InstanceState, Key, Limits, Person
from lxgpu.model.operation import Operation, OperationState
from lxgpu.model.reservation import Keep, Kind, Notice, Reservation, ReservationState

NAMES = ("alice", "bob", "carol", "dave")
GPUS = ("GPU-1", "GPU-2")
PARTS = ("whole", "1/2", "2/2")

texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(min_value=-(10**17), max_value=10**17)
amounts = st.none() | st.integers(min_value=0, max_value=10**17)
zones = st.sampled_from([UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-3, minutes=-30))])
instants = st.datetimes(datetime(2000, 1, 2), datetime(2199, 12, 30), timezones=zones)  # noqa: DTZ001 -- `timezones` gives the zone
near = st.integers(min_value=0, max_value=6).map(at)
maybe = st.none() | instants
names = st.sampled_from(NAMES)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
slots = st.builds(Slot.of, st.sampled_from(GPUS), st.sampled_from(PARTS))
limits = st.builds(Limits, cpu=amounts, memory_bytes=amounts, disk_bytes=amounts, processes=amounts)

persons = st.builds(
    Person, name=names, uid=st.sampled_from([1, 2, 3]), ssh_port=st.sampled_from([7, 8, 9]), created_at=instants
)
keys = st.builds(Key, person=names, fingerprint=st.sampled_from(["f1", "f2"]), line=texts, added_at=instants)
instances = st.builds(
    Instance,
    name=names,
    owner=names,
    host=st.sampled_from(["gpu1", "gpu2"]),
    state=st.sampled_from(InstanceState),
    created_at=near,
    uuid=texts,
    class_name=texts,
    profile=texts,
    image=texts,
    limits=limits,
    address=st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
    hwaddr=st.sampled_from(["", "00:16:3e:00:00:01"]),
    running=st.booleans(),
    expires=maybe,
    reason=texts,
    engine_name=texts,
    deleted_at=st.none() | near,
    kind=st.sampled_from(InstanceKind),
)
assignments = st.builds(
    Assignment,
    id=st.sampled_from(["a1", "a2", "a3", "a4"]),
    slot=slots,
    instance=names,
    state=st.sampled_from(AssignmentState),
    created_at=instants,
    class_name=texts,
    since=st.none() | near,
    until=maybe,
    due_at=maybe,
    reservation=st.none() | texts,
    closed_at=st.none() | near,
    outcome=texts,
)
slot_records = st.builds(
    SlotRecord,
    slot=slots,
    host=texts,
    detached_at=maybe,
    proven_at=maybe,
    boot_id=texts,
    quarantine=texts,
    quarantined_at=maybe,
)
cards = st.builds(
    Card,
    uuid=st.sampled_from(GPUS),
    host=texts,
    pci=texts,
    model=texts,
    memory_bytes=amounts,
    seen_at=instants,
    closed=texts,
    closed_by=texts,
    closed_at=maybe,
)
operations = st.builds(
    Operation,
    id=st.sampled_from(["o1", "o2", "o3"]),
    kind=texts,
    instance=st.sampled_from(["", *NAMES]),
    created_at=instants,
    actor=texts,
    args=json_objects,
    state=st.sampled_from(OperationState),
    position=st.integers(min_value=0, max_value=20),
    step=texts,
    due_at=maybe,
    closed_at=maybe,
    error=texts,
)
reservations = st.builds(
    Reservation,
    id=st.sampled_from(["r1", "r2", "r3"]),
    instance=names,
    owner=names,
    kind=st.sampled_from(Kind),
    gpus=st.integers(min_value=1, max_value=8),
    state=st.sampled_from(ReservationState),
    created_at=near,
    duration_s=st.integers(min_value=1, max_value=10**6),
    class_name=texts,
    model=texts,
    host=texts,
    pool=texts,
    start=maybe,
    until=maybe,
    series=texts,
    note=texts,
    soft=st.booleans(),
    no_warning=texts,
    cause=texts,
    prefers=texts,
    dies=maybe,
    used_at=maybe,
    told=json_objects,
    closed_at=st.none() | near,
    outcome=texts,
)
keeps = st.builds(
    Keep, id=st.sampled_from(["k1", "k2"]), instance=names, person=names, since=instants, until=instants, reason=texts
)
notices = st.builds(
    Notice,
    id=st.sampled_from(["n1", "n2"]),
    kind=texts,
    instance=names,
    person=names,
    created_at=instants,
    about=st.sampled_from(["", "a1", "r1"]),
    facts=json_objects,
    sent_at=maybe,
    outcome=json_objects,
)
_kinds = st.one_of(persons, keys, instances, assignments, slot_records, cards, operations, reservations, keeps, notices)


@st.composite
def any_row(draw):
    """A row of any kind; as a function of its own, so that hypothesis names it by one word."""
    return draw(_kinds)


rows = any_row()
