"""Readings as they are kept: a row a card and look, merged into fewer as they get older."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import groupby

from lxgpu.inventory.rows import instant, instant_text
from lxgpu.model.usage import Sample

STAGES: tuple[tuple[timedelta, timedelta], ...] = (
    (timedelta(days=7), timedelta(minutes=10)),
    (timedelta(days=1), timedelta(minutes=1)),
)
"""Samples older than the first are merged into one in the second, the coarsest stage first."""
KEPT = timedelta(days=365)
_NAMES = tuple(field.name for field in fields(Sample))
_COLUMNS = ", ".join(_NAMES)


def add(connection: sqlite3.Connection, samples: Iterable[Sample]) -> None:
    """Writes samples; one of the same card and instant is replaced."""
    marks = ", ".join("?" * len(_NAMES))
    connection.executemany(
        f"INSERT OR REPLACE INTO samples ({_COLUMNS}) VALUES ({marks})",  # noqa: S608 -- names of our own
        [_encoded(sample) for sample in samples],
    )


def read(connection: sqlite3.Connection, *, since: datetime, uuid: str | None) -> tuple[Sample, ...]:
    """Reads the samples of one card or of all from an instant on, oldest first."""
    mine = "" if uuid is None else " AND uuid = ?2"
    query = f"SELECT {_COLUMNS} FROM samples WHERE at >= ?1{mine} ORDER BY at, uuid"  # noqa: S608 -- names of our own
    values = (instant_text(since),) if uuid is None else (instant_text(since), uuid)
    return tuple([_decoded(row) for row in connection.execute(query, values)])


def thin(connection: sqlite3.Connection, now: datetime) -> int:
    """Merges what is old, reading only what is not merged yet; returns how many rows went."""
    (before,) = connection.execute("SELECT count(*) FROM samples").fetchone()
    oldest, youngest = instant_text(now - KEPT), instant_text(now - STAGES[-1][0])
    connection.execute("DELETE FROM samples WHERE at < ?", (oldest,))
    found = connection.execute(f"SELECT {_COLUMNS} FROM samples WHERE at < ?", (youngest,))  # noqa: S608 -- as above
    rows = [_decoded(row) for row in found]
    kept = thinned(rows, now)
    if len(kept) < len(rows):
        connection.execute("DELETE FROM samples WHERE at < ?", (youngest,))
        add(connection, kept)
    (after,) = connection.execute("SELECT count(*) FROM samples").fetchone()
    return int(before) - int(after)


def thinned(samples: Iterable[Sample], now: datetime) -> list[Sample]:
    """What is left of samples at an instant; pure, and the same again when done twice."""

    def place(sample: Sample) -> tuple[str, datetime, str]:
        return sample.uuid, _bucket(sample.at, now - sample.at), sample.instance

    young = [sample for sample in samples if now - sample.at <= KEPT]
    young.sort(key=lambda sample: (*place(sample), sample.at))
    return [reduce(_merged, group) for _, group in groupby(young, key=place)]


def _bucket(at: datetime, age: timedelta) -> datetime:
    """The beginning of the time that a sample of that age stands for; a young one stands for itself."""
    width = next((width for older, width in STAGES if age > older), None)
    if width is None:
        return at
    seconds = int(width.total_seconds())
    return datetime.fromtimestamp(int(at.timestamp()) // seconds * seconds, UTC)


def _merged(one: Sample, other: Sample) -> Sample:
    """Both in one, at the time of the earlier; the higher figure counts, and one that is known over one that is not."""
    return replace(
        one,
        utilization_percent=_higher(one.utilization_percent, other.utilization_percent),
        memory_used_bytes=_higher(one.memory_used_bytes, other.memory_used_bytes),
        processes=_higher(one.processes, other.processes),
        login=one.login or other.login,
        shared=one.shared + other.shared,
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _encoded(sample: Sample) -> tuple[object, ...]:
    at, *rest = astuple(sample)
    return instant_text(at), *rest


def _decoded(values: tuple[str, str, int | None, int | None, int | None, str, int | None, int]) -> Sample:
    at, uuid, utilization, memory, processes, instance, login, shared = values
    known = None if login is None else bool(login)
    return Sample(instant(at), uuid, utilization, memory, processes, instance, known, shared)
