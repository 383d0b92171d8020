"""The seam to the inventory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from lxgpu.model.assignment import Assignment
from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.reservation import Notice, Reservation
from lxgpu.model.snapshot import Records, Row
from lxgpu.model.usage import Sample


class Tx(Protocol):
    """One write transaction on the inventory."""

    @property
    def records(self) -> Records:
        """The living rows as this transaction found them."""

    def put(self, *rows: Row) -> None:
        """Insert rows or replace those of the same key. Error `conflict`: a unique rule was broken."""

    def drop(self, row: Row) -> None:
        """Remove a row."""

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """Write a line of history, with this transaction's actor and time."""

    def identify(self, identity: Identity) -> None:
        """Set which inventory this is, and its epoch."""


class VersionMovedError(Exception):
    """Somebody wrote between the reading and the writing: observe and decide again."""


class Inventory(Protocol):
    """What is meant to be. Writers never wait for LXD inside a transaction."""

    def read(self) -> Records:
        """All living rows at one version."""

    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> AbstractContextManager[Tx]:
        """A write transaction; all or nothing.

        `expected` is the version the decision was made on: `VersionMovedError` if it is no longer that.
        """

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""

    def events(
        self,
        *,
        subject: str | None = None,
        since: datetime | None = None,
        kinds: Collection[str] = (),
        limit: int = 1000,
    ) -> list[Event]:
        """History, newest first; of some kinds only, where any are named."""

    def events_after(self, identifier: int, *, limit: int = 1000) -> list[Event]:
        """History that was written after the event of that id, oldest first."""

    def closed_since(self, since: datetime) -> tuple[Assignment, ...]:
        """Assignments closed at or after an instant, newest first."""

    def reservation(self, identifier: str) -> Reservation | None:
        """One reservation, closed ones too."""

    def reservations_since(self, since: datetime) -> tuple[Reservation, ...]:
        """Reservations made or closed at or after an instant, and all open ones, oldest first."""

    def notices_about(self, about: str) -> tuple[Notice, ...]:
        """What people were or are to be told about an assignment or a reservation, sent ones too, oldest first."""

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Keep a batch of readings; the inventory's version stays."""

    def samples(self, *, since: datetime, uuid: str | None = None) -> tuple[Sample, ...]:
        """The samples kept of one card or of all from an instant on, oldest first."""

    def thin_samples(self, now: datetime) -> int:
        """Merge old samples into few: after a day one a minute, after a week one in ten minutes, none after a year.

        Returns how many rows went.
        """

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past (only `assignments` and `instances` are filled)."""
