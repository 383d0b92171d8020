"""One write transaction in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache

from lxgpu.errors import LxgpuError
from lxgpu.inventory.reader import living
from lxgpu.inventory.rows import Table, instant_text, json_text, tables
from lxgpu.inventory.rules import child_words, first_broken, no_person
from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Records, Row


class SqliteTx:
    """The port `Tx` on a connection whose transaction the inventory began and will end."""

    def __init__(
        self, connection: sqlite3.Connection, *, actor: str, now: datetime, before: Callable[[], Records]
    ) -> None:
        self._connection = connection
        self._actor = actor
        self._at = instant_text(now)
        self._before = before
        self._records: Records | None = None
        self._open = True
        self._changed = False

    @property
    def records(self) -> Records:
        """The living rows as this transaction found them; read when first asked for."""
        if self._records is None:
            self._live()
            self._records = self._before()
        return self._records

    def put(self, *rows: Row) -> None:
        """Inserts rows or replaces those of the same key, in the order given.

        Raises:
            LxgpuError: `conflict`: a row breaks a unique rule among the rows as they are by then.
        """
        connection = self._live()
        for row in rows:
            table = tables()[type(row)]
            try:
                done = connection.execute(_upsert(table), table.encode(row))
            except sqlite3.IntegrityError as error:
                raise self._told(table, row, error) from error
            # A row that is there already in just this form is no change.
            self._changed |= done.rowcount > 0

    def drop(self, row: Row) -> None:
        """Removes the row of the same key; nothing to do when there is none."""
        table = tables()[type(row)]
        done = self._live().execute(_delete(table), table.key_of(row))
        self._changed |= done.rowcount > 0

    def event(self, kind: str, subject: str, *, rule: str = "", detail: Mapping[str, object] | None = None) -> None:
        """Writes a line of history, with this transaction's actor and time."""
        self._live().execute(
            "INSERT INTO events (at, actor, kind, subject, rule, detail) VALUES (?, ?, ?, ?, ?, ?)",
            (self._at, self._actor, kind, subject, rule, json_text(detail or {})),
        )

    def identify(self, identity: Identity) -> None:
        """Sets which inventory this is, and its epoch."""
        done = self._live().execute(
            "UPDATE meta SET inventory = ?1, epoch = ?2 WHERE (inventory, epoch) IS NOT (?1, ?2)",
            (identity.inventory, identity.epoch),
        )
        self._changed |= done.rowcount > 0

    def finish(self) -> None:
        """Counts the version up if a row changed, and commits.

        Raises:
            LxgpuError: `conflict`: a key or an instance would have no person.
        """
        connection = self._live()
        self._open = False
        if self._changed:
            connection.execute("UPDATE meta SET version = version + 1")
        try:
            connection.execute("COMMIT")
        except sqlite3.IntegrityError as error:
            raise self._orphan(error) from error

    def close(self) -> None:
        """Ends the use of this object; a later call would write outside of any transaction."""
        self._open = False

    def _live(self) -> sqlite3.Connection:
        if not self._open:
            raise RuntimeError("this transaction has ended")
        return self._connection

    def _told(self, table: Table, row: Row, error: sqlite3.IntegrityError) -> LxgpuError:
        return first_broken(row, living(self._connection, table)) or LxgpuError(
            "internal", f"the inventory refuses a row of {table.name}", why=f"{error}: {row}"
        )

    def _orphan(self, error: sqlite3.IntegrityError) -> LxgpuError:
        query = """
        SELECT 'keys', person, fingerprint FROM keys WHERE person NOT IN (SELECT name FROM persons) UNION ALL
        SELECT 'instances', owner, name FROM instances WHERE owner NOT IN (SELECT name FROM persons)
        ORDER BY 1 DESC, 2, 3 LIMIT 1
        """
        found = self._connection.execute(query).fetchone()
        if found is None:
            return LxgpuError("internal", "the inventory refuses a transaction", why=str(error))
        table, person, name = found
        return no_person(person, child_words(table, name))


@cache
def _upsert(table: Table) -> str:
    columns = ", ".join(table.columns)
    marks = ", ".join("?" * len(table.columns))
    rest = [column for column in table.columns if column not in table.key]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    old, new = (", ".join(f"{side}.{column}" for column in rest) for side in (table.name, "excluded"))
    return (
        f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 -- names of our own
        f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changes} WHERE ({old}) IS NOT ({new})"
    )


@cache
def _delete(table: Table) -> str:
    return f"DELETE FROM {table.name} WHERE ({', '.join(table.key)}) = ({', '.join('?' * len(table.key))})"  # noqa: S608 -- as above
