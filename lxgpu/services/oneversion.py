"""Decide and write against one version of the inventory, so that of two at once each sees the other.

Looking people up (that may mean LDAP) and deciding take their time, and nobody else may wait for it: both are done
before the write lock is taken. What was decided is then written if nobody wrote meanwhile, else decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Records, Row, Snapshot
from lxgpu.ports import Tx, VersionMovedError
from lxgpu.services.site import Site

T = TypeVar("T")
TRIES = 3
"""After so many it is decided under the lock: others write all the time, and must not go first for ever."""


class Draft:
    """What is to be written, in order: a `Tx` that writes nothing yet."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._calls: list[Callable[[Tx], None]] = []

    @property
    def records(self) -> Records:
        """The rows that the decision is made on."""
        return self._records

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self._calls

    def put(self, *rows: Row) -> None:
        """Rows as they are to be."""
        if rows:
            self._calls.append(lambda tx: tx.put(*rows))

    def drop(self, row: Row) -> None:
        """A row that is to go."""
        self._calls.append(lambda tx: tx.drop(row))

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """A line of history."""
        self._calls.append(lambda tx: tx.event(kind, subject, rule=rule, detail=detail))

    def identify(self, identity: Identity) -> None:
        """Which inventory it is to be."""
        self._calls.append(lambda tx: tx.identify(identity))

    def write(self, tx: Tx) -> None:
        """Write all of it."""
        for call in self._calls:
            call(tx)


def on_one_version(site: Site, judge: Callable[[Records], Snapshot], act: Callable[[Tx, Snapshot], T]) -> T:
    """Decide and write, all or nothing; gives what `act` gives.

    Args:
        site: whose inventory it is.
        judge: makes everything that the decision looks at of the rows; may take its time.
        act: decides on that and writes into the `Tx` it is given. It may be called again, on newer rows.

    Raises whatever `act` raises, and nothing is written; `conflict` when a row breaks a rule.
    """
    for _ in range(TRIES):
        snapshot = judge(site.inventory.read())
        draft = Draft(snapshot.records)
        answer = act(draft, snapshot)
        if draft.empty:
            return answer
        try:
            with site.write(expected=snapshot.records.version) as tx:
                draft.write(tx)
        except VersionMovedError:
            continue
        return answer
    with site.write() as tx:
        return act(tx, judge(tx.records))
