"""The seam to the inventory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from lxgpu.model.operation import Event, Identity, Operation
from lxgpu.model.snapshot import Records, Row


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

    def events(self, *, subject: str | None = None, since: datetime | None = None, limit: int = 1000) -> list[Event]:
        """History, newest first."""

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past (only `assignments` and `instances` are filled)."""
