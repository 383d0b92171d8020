"""The schema in numbered steps of SQL (`sql/NNN_name.sql`), each applied with its record in one transaction."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import lxgpu
from lxgpu.errors import LxgpuError
from lxgpu.inventory import faults
from lxgpu.inventory.connection import APPLICATION_ID, TIMEOUT_S, connect
from lxgpu.inventory.copies import copy_database
from lxgpu.inventory.rows import instant_text

FOLDER = Path(__file__).parent / "sql"
_NAME = re.compile(r"([0-9]{3})_([a-z0-9_]+)\.sql")
_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
  number     INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_at TEXT NOT NULL,
  program    TEXT NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number, its name, and the file with its statements."""

    number: int
    name: str
    file: Path


@cache
def known(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """Returns the steps in a folder, in order.

    Raises:
        LxgpuError: `internal`: a number is missing or taken twice.
    """
    named = ((file, _NAME.fullmatch(file.name)) for file in sorted(folder.iterdir()))
    steps = tuple(Migration(number=int(match[1]), name=match[2], file=file) for file, match in named if match)
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise LxgpuError("internal", "the steps of the inventory's schema are not numbered 001, 002 …", why=str(folder))
    return steps


def applied(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the number of the newest step applied, 0 for an empty file.

    Raises:
        LxgpuError: `inventory_damaged`: it is a database, but none of ours.
    """
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    if names and (owner != APPLICATION_ID or "migrations" not in names):
        raise faults.damaged(path, "it is an SQLite database, but no inventory of lxgpu")
    if not names:
        return 0
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(number)


def pending(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> Sequence[Migration]:
    """Returns the steps still to apply; changes nothing.

    Raises:
        LxgpuError: `inventory_newer`: the file has steps that are not known here; `inventory_damaged`.
    """
    found = applied(connection, path)
    if found > len(steps):
        raise faults.newer(path, found=found, known=len(steps))
    return steps[found:]


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration], *, copy: bool = True) -> int:
    """Applies what is pending and returns how many steps that were.

    A file with earlier steps is first copied to `PATH.before-NNN`, NNN being the first new step, unless `copy` is
    False. When a step fails, the ones before it stay applied. Several processes may do this at once: each step is
    applied once.

    Raises:
        LxgpuError: as `pending`; errors of sqlite3 come through.
    """
    if not pending(connection, path, steps):
        return 0
    # Remaking a table, as some steps must, is only possible without; the check before each commit makes up for it.
    connection.execute("PRAGMA foreign_keys = OFF")
    count = 0
    try:
        while _apply_next(connection, path, steps, copy=copy and count == 0):
            count += 1
    finally:
        connection.execute("PRAGMA foreign_keys = ON")
    return count


def _apply_next(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration], *, copy: bool) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: somebody else may have been faster.
        left = pending(connection, path, steps)
        if left:
            if copy and left[0].number > 1:
                with closing(connect(path, mode="rw", timeout_s=TIMEOUT_S)) as reader:
                    copy_database(reader, path.with_name(f"{path.name}.before-{left[0].number:03}"))
            _apply(connection, left[0])
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return bool(left)


def _apply(connection: sqlite3.Connection, step: Migration) -> None:
    connection.execute(_TABLE)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in statements(step.file.read_text(encoding="utf-8")):
        connection.execute(statement)
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    if orphans:
        raise LxgpuError(
            "internal",
            f"step {step.number:03}_{step.name} of the inventory's schema leaves rows without their parent",
            why=[f"{table}, row {row}: no such {parent}" for table, row, parent, _ in orphans],
        )
    connection.execute(
        "INSERT INTO migrations (number, name, applied_at, program) VALUES (?, ?, ?, ?)",
        (step.number, step.name, instant_text(datetime.now(UTC)), f"lxgpu {lxgpu.__version__}"),
    )


def statements(script: str) -> Iterator[str]:
    """Splits a script into statements, triggers included.

    `executescript` would do it, but commits first, and so would tear a step from its record.
    """
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""
    if any(line.strip() and not line.strip().startswith("--") for line in part.splitlines()):
        raise LxgpuError("internal", "a step of the inventory's schema ends in the middle of a statement", why=part)
