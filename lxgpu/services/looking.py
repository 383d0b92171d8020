"""Looking without touching: what read-only commands ask of the inventory, LXD and NVML.

What cannot be asked is left out and said; a look never fails because LXD does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu, Readings
from lxgpu.model.instance import Sighting
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Observation, Records
from lxgpu.ports import Engine, Inventory
from lxgpu.services.explain import concerns
from lxgpu.services.traces import claim_of, reservation_of

NOTHING = Records(version=0, identity=None)
"""An inventory that has never been made."""
_FAR = 100_000
"""How many events are searched for those of a card."""
_SHORTEST = 4
"""A shorter beginning of a reservation's id names none."""
_OUT = frozenset({"unavailable", "outcome_unknown", "engine"})


class Sampling(Protocol):
    """Of a probe, what a look needs."""

    def boot_id(self) -> str:
        """Changes at every boot of the host."""

    def readings(self) -> Readings:
        """One NVML sample of all cards."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The inventory and the instances; `sightings` is None when LXD did not answer, then `trouble` says why."""

    records: Records
    sightings: tuple[Sighting, ...] | None
    trouble: LxgpuError | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The inventory, LXD's cards and instances (None: no answer, see `trouble`), and NVML's sample."""

    records: Records
    seen: Observation | None
    readings: Readings
    at: datetime
    trouble: LxgpuError | None = None


def records_of(inventory: Callable[[], Inventory]) -> Records:
    """The inventory's rows, or none where it has never been made."""
    try:
        return inventory().read()
    except LxgpuError as error:
        if error.code != "not_found":
            raise
        return NOTHING


def glance(engine: Engine, records: Records, *, with_state: bool = False) -> Glance:
    """One request to LXD, whatever the number of containers."""
    try:
        return Glance(records=records, sightings=engine.instances(with_state=with_state))
    except LxgpuError as error:
        return Glance(records=records, sightings=None, trouble=_out(error))


def glance_at(engine: Engine, records: Records, name: str) -> Glance:
    """One container with its state; the others are not looked at."""
    try:
        seen = engine.instance(name)
    except LxgpuError as error:
        return Glance(records=records, sightings=None, trouble=_out(error))
    return Glance(records=records, sightings=() if seen is None else (seen,))


def look(engine: Engine, probe: Sampling, records: Records, *, host: str, at: datetime) -> Look:
    """Cards, instances and one NVML sample, asked for side by side."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        sample = pool.submit(probe.readings)
        gpus, sightings = pool.submit(engine.gpus), pool.submit(engine.instances, with_state=False)
        readings = sample.result()
        try:
            seen = Observation(
                host=host,
                boot_id=probe.boot_id(),
                at=at,
                gpus=gpus.result(),
                sightings=sightings.result(),
                readings=readings,
            )
        except LxgpuError as error:
            return Look(records=records, seen=None, readings=readings, at=at, trouble=_out(error))
    return Look(records=records, seen=seen, readings=readings, at=at)


def cards(engine: Engine) -> tuple[Gpu, ...]:
    """The cards that LXD shows; none while it does not answer."""
    try:
        return engine.gpus()
    except LxgpuError as error:
        _out(error)
        return ()


def past_of(inventory: Callable[[], Inventory], at: datetime) -> Records:
    """Who held what at an instant of the past; nobody, where the inventory has never been made."""
    try:
        return inventory().assignments_at(at)
    except LxgpuError as error:
        if error.code != "not_found":
            raise
        return NOTHING


def as_leased(records: Records, at: datetime) -> Records:
    """Who will hold what at an instant to come, if every lease ends when it says and nobody is given more."""
    lasting = (row for row in records.assignments if row.live and (row.until is None or row.until > at))
    return replace(records, assignments=tuple(lasting))


def events_about(
    inventory: Callable[[], Inventory], subject: str | None, *, most: int, since: datetime | None = None
) -> list[Event]:
    """The newest events, of a container, of a card (which stand among those of its holders), or all (None)."""
    try:
        store = inventory()
        if subject is None or not subject.startswith("GPU-"):
            return store.events(subject=subject, since=since, limit=most)
        return [event for event in store.events(since=since, limit=_FAR) if concerns(event, subject)][:most]
    except LxgpuError as error:
        if error.code != "not_found":
            raise
        return []


def events_about_reservation(inventory: Callable[[], Inventory], identifier: str, *, most: int) -> list[Event]:
    """The newest events that name a reservation, or a claim by its id: its owner's, and those who gave way to it."""
    found = events_about(inventory, None, most=_FAR)
    return [event for event in found if identifier in {reservation_of(event), claim_of(event)}][:most]


def reservation_named(inventory: Callable[[], Inventory], text: str, *, since: datetime) -> Reservation | None:
    """A reservation by its id, or by a beginning that no other open or recent one has; None: there is none."""
    try:
        store = inventory()
        known = store.reservation(text)
        near = [row for row in store.reservations_since(since) if row.id.startswith(text)] if known is None else []
    except LxgpuError as error:
        if error.code != "not_found":
            raise
        return None
    return known or (near[0] if len(near) == 1 and len(text) >= _SHORTEST else None)


def _out(error: LxgpuError) -> LxgpuError:
    """The error if it means that LXD is out of order; any other is a fault and goes up."""
    if error.code not in _OUT:
        raise error
    return error
