"""The inventory as one of several hosts sees it: its own rows, and those of the others only to be counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance
from lxgpu.model.onehost import rows_of

if TYPE_CHECKING:
    from lxgpu.model.assignment import Assignment
    from lxgpu.model.operation import Event, Identity, Operation
    from lxgpu.model.reservation import Notice, Reservation
    from lxgpu.model.snapshot import Records, Row
    from lxgpu.model.usage import Sample
    from lxgpu.ports import Inventory, Tx


class OneHost:
    """`ports.Inventory` for one of several `hosts`; the first is the one that lxgpu runs on, with what is on no other.

    Events, closed rows and samples are everybody's: they name what they are about, and are only added.
    """

    def __init__(self, whole: Inventory, host: str, *, hosts: Sequence[str]) -> None:
        self._whole = whole
        self._host = host
        self._hosts = hosts
        self._last: tuple[Records, Records] | None = None

    def read(self) -> Records:
        """The living rows of the host, at one version of the whole."""
        return self._mine(self._whole.read())

    @contextmanager
    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> Iterator[OneHostTx]:
        """A write transaction of the whole, that sees the rows of the host."""
        with self._whole.write(actor=actor, now=now, expected=expected) as tx:
            yield OneHostTx(tx, self._mine, self._host)

    def operation(self, identifier: str) -> Operation | None:
        """One operation, closed ones too."""
        return self._whole.operation(identifier)

    def events(
        self,
        *,
        subject: str | None = None,
        since: datetime | None = None,
        kinds: Collection[str] = (),
        limit: int = 1000,
    ) -> list[Event]:
        """History of all hosts, newest first."""
        return self._whole.events(subject=subject, since=since, kinds=kinds, limit=limit)

    def events_after(self, identifier: int, *, limit: int = 1000) -> list[Event]:
        """History of all hosts that was written after the event of that id, oldest first."""
        return self._whole.events_after(identifier, limit=limit)

    def closed_since(self, since: datetime) -> tuple[Assignment, ...]:
        """Assignments of all hosts closed at or after an instant: what people used counts wherever it was."""
        return self._whole.closed_since(since)

    def reservation(self, identifier: str) -> Reservation | None:
        """One reservation, closed ones too."""
        return self._whole.reservation(identifier)

    def reservations_since(self, since: datetime) -> tuple[Reservation, ...]:
        """Reservations of all hosts made or closed at or after an instant, and all open ones."""
        return self._whole.reservations_since(since)

    def notices_about(self, about: str) -> tuple[Notice, ...]:
        """What people were or are to be told about an assignment or a reservation."""
        return self._whole.notices_about(about)

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Keep a batch of readings."""
        self._whole.add_samples(samples)

    def samples(self, *, since: datetime, uuid: str | None = None) -> tuple[Sample, ...]:
        """The samples kept of one card or of all."""
        return self._whole.samples(since=since, uuid=uuid)

    def thin_samples(self, now: datetime) -> int:
        """Merge old samples into few."""
        return self._whole.thin_samples(now)

    def assignments_at(self, at: datetime) -> Records:
        """Who held what at an instant of the past, on all hosts."""
        return self._whole.assignments_at(at)

    def _mine(self, whole: Records) -> Records:
        last = self._last
        if last is None or last[0] is not whole:  # the same tables stay the same: what is known of them is kept by them
            last = self._last = whole, rows_of(whole, self._host, hosts=self._hosts)
        return last[1]


class OneHostTx:
    """`ports.Tx` for one host."""

    def __init__(self, tx: Tx, mine: Callable[[Records], Records], host: str) -> None:
        self._tx = tx
        self._mine = mine
        self._host = host

    @property
    def records(self) -> Records:
        """The living rows of the host as this transaction found them."""
        return self._mine(self._tx.records)

    def put(self, *rows: Row) -> None:
        """Insert rows or replace those of the same key.

        Raises:
            LxgpuError: `exists`: another host has a container of that name; `conflict`: a unique rule was broken.
        """
        for row in rows:
            if isinstance(row, Instance):
                self._check_here(row)
        self._tx.put(*rows)

    def drop(self, row: Row) -> None:
        """Remove a row."""
        self._tx.drop(row)

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """Write a line of history."""
        self._tx.event(kind, subject, rule=rule, detail=detail)

    def identify(self, identity: Identity) -> None:
        """Set which inventory this is, and its epoch."""
        self._tx.identify(identity)

    def _check_here(self, row: Instance) -> None:
        there = next((known for one in self.records.elsewhere if (known := one.instance(row.name))), None)
        if there is not None:
            raise LxgpuError(
                "exists",
                f"there is a container {row.name} on {there.host}",
                why="a name is given once, whatever the host",
                fix=f"another name, as lxgpu create {row.name}-{self._host} --owner {row.owner} --host {self._host}",
            )
