"""A first look at the inventory, for `lxgpu ls` alone: bare rows, and None whenever anything is out of the ordinary.

The store reads with checks, words for every fault and the model's types, which takes longer to load than `ls` may take
(three times `lxc list`). Here nothing is explained: with None the caller goes the long way, which does.
"""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import datetime
from types import SimpleNamespace

_FREE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
"""What a path may have to stand in SQLite's URI as it is."""
_LIMITS = ("cpu", "memory_bytes", "disk_bytes", "processes")
_TABLES = {
    "persons": ("persons", ("name", "ssh_port"), ""),
    "cards": ("cards", ("uuid", "pci", "model"), ""),
    "instances": (
        "instances",
        (
            "name",
            "owner",
            "host",
            "state",
            "created_at",
            "uuid",
            "class_name",
            "limits",
            "expires",
            "engine_name",
            "kind",
        ),
        "",
    ),
    "assignments": (
        "assignments",
        ("id", "gpu", "part", "instance", "state", "created_at", "since", "until", "reservation"),
        " WHERE state NOT IN ('planned', 'closed')",
    ),
    "reservations": (
        "reservations",
        ("id", "kind", "instance", "gpus", "pool", "created_at", "dies"),
        " WHERE kind = 'return' AND state IN ('waiting', 'scheduled', 'preparing', 'active')",
    ),
}
_TIMES = frozenset({"created_at", "expires", "since", "until", "dies"})


def peek(path: str, *, schema: int) -> SimpleNamespace | None:
    """The rows that a list of containers is made of, at one version; None: go the long way.

    Args:
        path: the file.
        schema: the number of the migration that this lxgpu knows as the last one.
    """
    log = f"{path}-wal"
    if not _FREE.issuperset(path):
        return None
    try:
        # Without a log nobody writes, and the file can be read alone; that nobody began is checked afterwards.
        settled, before = _size(log) == 0, _stamp(path)
        uri = f"file:{path}?mode=ro" + ("&immutable=1" if settled else "")
        connection = sqlite3.connect(uri, uri=True, timeout=1.0, isolation_level=None)
        try:
            connection.execute("BEGIN")
            found = _read(connection, schema)
        finally:
            connection.close()
        return None if settled and (_size(log) or _stamp(path) != before) else found
    except (OSError, sqlite3.Error, ValueError, KeyError):
        return None


def _read(connection: sqlite3.Connection, schema: int) -> SimpleNamespace | None:
    if connection.execute("SELECT max(number) FROM migrations").fetchone() != (schema,):
        return None
    rows = {}
    for name, (table, columns, where) in _TABLES.items():
        query = f"SELECT {', '.join(columns)} FROM {table}{where}"  # noqa: S608 -- our own words
        rows[name] = [_row(columns, values) for values in connection.execute(query)]
    for row in rows["instances"]:
        asked = json.loads(row.limits)
        row.limits = {key: asked.get(key) for key in _LIMITS}
    for row in rows["assignments"]:
        row.live, row.slot = True, _Slot(row.gpu, row.part)
    return SimpleNamespace(**rows)


class _Slot:
    """As `model.gpu.Slot`, as far as a list needs it."""

    __slots__ = ("card", "part")

    def __init__(self, card: str, part: str) -> None:
        self.card = card
        self.part = part

    def __str__(self) -> str:
        return self.card if self.part == "whole" else f"{self.card}/{self.part}"


def _row(columns: tuple[str, ...], values: tuple[object, ...]) -> SimpleNamespace:
    pairs = zip(columns, values, strict=True)
    return SimpleNamespace(
        **{name: datetime.fromisoformat(str(value)) if name in _TIMES and value else value for name, value in pairs}
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 -- pathlib takes 4 ms to load
    except FileNotFoundError:
        return 0


def _stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 -- as above
    return found.st_mtime_ns, found.st_size
