"""What people asked for and did not get at once: bookings, requests in the queue, claims of the displaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from lxgpu.model.gpu import Slot


class Kind(StrEnum):
    """A booking has a fixed time, a request waits for its turn, a return (to people: a claim) for its cards."""

    BOOKING = "booking"
    REQUEST = "request"
    RETURN = "return"

    __hash__ = str.__hash__  # the hash of Enum is Python code, and states are asked for in sets all the time


class ReservationState(StrEnum):
    """waiting → scheduled → preparing → active → finished | missed; or cancelled, or failed."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    PREPARING = "preparing"
    ACTIVE = "active"
    FINISHED = "finished"
    MISSED = "missed"
    CANCELLED = "cancelled"
    FAILED = "failed"

    __hash__ = str.__hash__  # the hash of Enum is Python code, and states are asked for in sets all the time


ASAP = "asap"
"""The mark in `Reservation.told` of a request whose turn has come: it was not booked ahead."""
PENDING = frozenset({ReservationState.WAITING, ReservationState.SCHEDULED, ReservationState.PREPARING})
"""Before the cards are there: it can be cancelled without a trace."""
OPEN = PENDING | {ReservationState.ACTIVE}


@dataclass(frozen=True, slots=True)
class Reservation:
    """Cards wanted by an instance, for a time.

    `model` is the pattern asked for (the card's exact model for a return), `pool` the exact model whose cards it
    counts on, empty until it is bound to one; `host` likewise. `start` and `until` bound the half-open time of a
    booking; a request and a return have them once they begin. `soft` ones (of a preemptible class that says so) may be
    displaced. `no_warning` is an admin's reason for taking without one. Of a return, `cause` is the reservation it
    yielded to, `prefers` the slots it had (see `preferred`), `dies` when the claim ends. `used_at` is the first sign
    of use after the start. `told` keeps which advance notices went out.
    """

    id: str
    instance: str
    owner: str
    kind: Kind
    gpus: int
    state: ReservationState
    created_at: datetime
    duration_s: int
    class_name: str = ""
    model: str = "*"
    host: str = ""
    pool: str = ""
    start: datetime | None = None
    until: datetime | None = None
    series: str = ""
    note: str = ""
    soft: bool = False
    no_warning: str = ""
    cause: str = ""
    prefers: str = ""
    dies: datetime | None = None
    used_at: datetime | None = None
    told: Mapping[str, object] = field(default_factory=dict)
    closed_at: datetime | None = None
    outcome: str = ""

    @property
    def open(self) -> bool:
        """Whether it is still to be met, or being met."""
        return self.state in OPEN

    @property
    def pending(self) -> bool:
        """Whether it waits for its cards."""
        return self.state in PENDING

    @property
    def asap(self) -> bool:
        """Whether it was a request whose turn has come: no time of the clock was asked for, but so much of it."""
        return bool(self.told.get(ASAP))

    @property
    def preferred(self) -> tuple[Slot, ...]:
        """The slots that a return would like to have again."""
        return tuple(Slot(text) for text in self.prefers.split(",") if text) if self.prefers else ()

    def until_if_begun(self, at: datetime) -> datetime:
        """When it ends if it begins at that instant; a booking ends when it said."""
        return self.until or at + timedelta(seconds=self.duration_s)


@dataclass(frozen=True, slots=True)
class Keep:
    """Somebody's word that idle cards are to be left to them until `until`; it counts against a bounded amount."""

    id: str
    instance: str
    person: str
    since: datetime
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that people are to be told, written in the transaction that decided it and sent right after.

    `kind` names the template, `facts` what it is filled in with. `instance` is whose terminals and files it goes to,
    `person` whose mail. `about` is the assignment or reservation that the notice is about. `sent_at` is the attempt,
    `outcome` what became of it on each way: a notice that was tried once is not tried again.
    """

    id: str
    kind: str
    instance: str
    person: str
    created_at: datetime
    about: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    sent_at: datetime | None = None
    outcome: Mapping[str, object] = field(default_factory=dict)

    @property
    def sent(self) -> bool:
        """Whether it was tried."""
        return self.sent_at is not None
