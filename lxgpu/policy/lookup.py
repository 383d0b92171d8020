"""What decisions look up in the tables of a Snapshot, each sorted once and not for every question. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lxgpu.model.assignment import Assignment, AssignmentState, Card, SlotRecord
from lxgpu.model.gpu import Slot, is_part
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.names import owner_by_name
from lxgpu.model.operation import Operation
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.slices import in_slices, unmade
from lxgpu.model.snapshot import Records
from lxgpu.policy.tables import Groups, Once, once, once_for_each

_LOSING = frozenset({InstanceState.SUSPENDED, InstanceState.DELETING, InstanceState.TRASHED})
PROMISED = frozenset({ReservationState.SCHEDULED, ReservationState.PREPARING, ReservationState.ACTIVE})
"""States in which the time of a booking is its own."""


@once
def reservations_by_id(rows: tuple[Reservation, ...]) -> Mapping[str, Reservation]:
    """Reservations by their id."""
    return {row.id: row for row in rows}


@once
def assignments_by_id(rows: tuple[Assignment, ...]) -> Mapping[str, Assignment]:
    """Assignments by their id."""
    return {row.id: row for row in rows}


@once
def instances_by_name(rows: tuple[Instance, ...]) -> Mapping[str, Instance]:
    """Instances by their name."""
    return {row.name: row for row in rows}


@once
def ready_instances(rows: tuple[Instance, ...]) -> frozenset[str]:
    """The instances that are in use and meant to run: what they asked for stands."""
    return frozenset(row.name for row in rows if row.state not in _LOSING and row.running)


@once
def owners_by_instance(rows: tuple[Instance, ...]) -> Mapping[str, str]:
    """Who owns which instance, by its name."""
    return {row.name: row.owner for row in rows}


Instances = tuple[Instance, ...]


def all_hosts(records: Records) -> tuple[Records, ...]:
    """The rows of this host, and of the others where these are one host's: a quota is one for all."""
    return (records, *records.elsewhere)


def instances_everywhere(records: Records) -> Instances:
    """The instances of all hosts, where the rows are one host's."""
    return _everywhere(records) if records.elsewhere else records.instances


@once_for_each
def _everywhere(records: Records) -> Instances:
    return tuple(row for one in all_hosts(records) for row in one.instances)


def own_machine(rows: Iterable[Instance], person: str, *, but: str = "") -> Instance | None:
    """The container that is a person's own on this host, one named `but` left out; theirs of single runs are none."""
    mine = (row for row in rows if row.owner == person and row.name != but and not row.throw_away)
    return next((row for row in mine if row.state is not InstanceState.TRASHED), None)


def with_instance(rows: Instances, row: Instance) -> Instances:
    """The table with one more instance; what is known of it is handed on."""
    after = (*rows, row)
    instances_by_name.remember(after, {**instances_by_name(rows), row.name: row})
    owners_by_instance.remember(after, {**owners_by_instance(rows), row.name: row.owner})
    ready_instances.remember(after, ready_instances(rows) | ready_instances((row,)))
    return after


def without_instance(rows: Instances, name: str) -> Instances:
    """The table without an instance; what is known of it is handed on."""
    there, owners = dict(instances_by_name(rows)), dict(owners_by_instance(rows))
    del there[name], owners[name]
    after = tuple(there.values())
    instances_by_name.remember(after, there)
    owners_by_instance.remember(after, owners)
    ready_instances.remember(after, ready_instances(rows) - {name})
    return after


@once
def slot_records(rows: tuple[SlotRecord, ...]) -> Mapping[Slot, SlotRecord]:
    """What is known of slots between holders, by slot."""
    return {row.slot: row for row in rows}


@once
def at_work(rows: tuple[Operation, ...]) -> frozenset[str]:
    """The instances on which an operation is under way."""
    return frozenset(row.instance for row in rows if row.live)


@once
def stuck_cards(rows: tuple[SlotRecord, ...]) -> Mapping[str, str]:
    """Why cards are in quarantine, by their UUID."""
    return {row.slot.gpu: row.quarantine for row in rows if row.quarantine}


@once
def closed_cards(rows: tuple[Card, ...]) -> Mapping[str, Card]:
    """Cards that an admin took out of service, by their UUID."""
    return {row.uuid: row for row in rows if row.closed}


def unmade_cards(rows: tuple[Card, ...], boot_id: str) -> frozenset[str]:
    """Cards whose MIG slices are still to be made, or to be taken away."""
    return frozenset(row.uuid for row in _with_slices(rows) if unmade(row, boot_id))


@once
def _with_slices(rows: tuple[Card, ...]) -> tuple[Card, ...]:
    return tuple(row for row in rows if row.made or in_slices(row.layout))


open_by_place = Groups[Reservation, tuple[str, ReservationState]](
    lambda row: (row.host, row.state) if row.open else None
)
"""Open reservations by the host that they are bound to, which is empty while they are bound to none, and by state."""
claims_by_host = Groups[Reservation, str](lambda row: row.host if row.open and row.kind is Kind.RETURN else None)
"""Open claims by host."""
open_by_instance = Groups[Reservation, str](lambda row: row.instance if row.open else None)
"""Open reservations by whose they are."""
ordered = Groups[Reservation, str](
    lambda row: row.host if row.state is ReservationState.WAITING and row.no_warning else None
)
"""What waits by an admin's word, by host."""
queued = Groups[Reservation, tuple[str, str, str]](
    lambda row: (
        (row.host, row.owner, row.class_name)
        if row.kind is Kind.REQUEST and row.state is ReservationState.WAITING and not row.no_warning
        else None
    )
)
"""Requests in the queue by host, person and class; an admin's word is in no queue."""
bookings_by_owner = Groups[Reservation, str](
    lambda row: row.owner if row.kind is Kind.BOOKING and row.open and row.start and row.until else None
)
"""Open bookings that have their times, by person."""
requests_by_owner = Groups[Reservation, str](lambda row: row.owner if row.kind is Kind.REQUEST and row.open else None)
"""Requests in the queue, by person."""
promised_by_pool = Groups[Reservation, tuple[str, str]](
    lambda row: (row.host, row.pool) if row.kind is Kind.BOOKING and row.state in PROMISED and row.start else None
)
"""Bookings whose time is their own, soft ones among them, by host and model."""
preparing_by_instance = Groups[Reservation, str](
    lambda row: row.instance if row.kind is Kind.BOOKING and row.state is ReservationState.PREPARING else None
)
"""Bookings whose cards are being got ready, by who gets them."""
by_card = Groups[Assignment, str](
    lambda row: row.slot.gpu if row.live or row.state is AssignmentState.PLANNED else None
)
"""Assignments that hold or are promised a slot, by its name: a card's UUID, with the part where it is divided."""
parts_by_instance = Groups[Assignment, str](
    lambda row: row.instance if is_part(row.slot.gpu) and (row.live or row.state is AssignmentState.PLANNED) else None
)
"""Parts of divided cards that are held or promised, by who has them."""
by_instance = Groups[Assignment, str](lambda row: row.instance if row.live else None)
"""Live assignments by who holds them."""
by_reservation = Groups[Assignment, str](
    lambda row: row.reservation if row.live or row.state is AssignmentState.PLANNED else None
)
"""Assignments that hold or are promised a slot for a reservation, by its id."""
promised_to = Groups[Assignment, str](lambda row: row.instance if row.state is AssignmentState.PLANNED else None)
"""Assignments that are promised, by who gets them."""
past_by_instance = Groups[Assignment, str](lambda row: row.instance)
"""Assignments that are over, by who had them."""
FAILED = "failed"
"""How an assignment ends whose card could not be attached."""
failed_by_reservation = Groups[Assignment, str](lambda row: row.reservation if row.outcome == FAILED else None)
"""Of those the ones whose card could not be attached, by what they were for."""
cards_by_host = Groups[Card, str](lambda row: row.host)
"""What is remembered of cards, by host."""
instances_by_owner = Groups[Instance, str](lambda row: row.owner)
"""Instances by person."""


def shared_by(rows: tuple[Assignment, ...], instance: str, *, but: str = "") -> frozenset[str]:
    """The cards of which an instance has a part, or is promised one but for the reservation `but`: it gets no other."""
    mine = parts_by_instance(rows).get(instance, ())
    return frozenset(row.slot.card for row in mine if row.live or not but or row.reservation != but)


def names_with_past(past: tuple[Assignment, ...], instances: Instances, person: str) -> Sequence[str]:
    """Of a person's instances, their runs that are gone, and one of their own name that is: those that had cards."""
    return _names_with_past(past)(instances).get(person, ())


@once
def _names_with_past(past: tuple[Assignment, ...]) -> Once[Instances, Mapping[str, Sequence[str]]]:
    return Once(lambda instances: _by_owner(past_by_instance(past), owners_by_instance(instances)))


def _by_owner(names: Iterable[str], owners: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found[owners.get(name) or owner_by_name(name)].append(name)
    return found
