"""Readings as they are kept: a row a card and look, merged into fewer as they get older."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import fields, replace
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
_LETTERS = {timedelta(minutes=10): len("2027-03-01T08:0"), timedelta(minutes=1): len("2027-03-01T08:00")}
"""How many letters of their instants are the same in samples that are merged into one."""
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
    """Merges what is old; returns how many rows went. Only those that are merged are read into Python."""
    (before,) = connection.execute("SELECT count(*) FROM samples").fetchone()
    connection.execute("DELETE FROM samples WHERE at < ?", (instant_text(now - KEPT),))
    newest = None
    for older, width in STAGES:
        _thin_stage(connection, now, since=newest, before=instant_text(now - older), letters=_LETTERS[width])
        newest = instant_text(now - older)
    (after,) = connection.execute("SELECT count(*) FROM samples").fetchone()
    return int(before) - int(after)


def _thin_stage(connection: sqlite3.Connection, now: datetime, *, since: str | None, before: str, letters: int) -> None:
    """Merges the samples between two instants whose text agrees in so many letters."""
    found = connection.execute(
        f"""
        WITH crowded AS (
          SELECT uuid AS card, instance AS holder, substr(at, 1, ?3) AS stem FROM samples
          WHERE at >= ?1 AND at < ?2 GROUP BY card, holder, stem HAVING count(*) > 1
        )
        SELECT {_COLUMNS} FROM crowded JOIN samples
          ON uuid = card AND at >= stem AND at < stem || '~' AND instance = holder AND at >= ?1 AND at < ?2
        """,  # noqa: S608 -- names of our own
        (since or "", before, letters),
    )
    rows = [_decoded(row) for row in found]
    gone = [(sample.uuid, instant_text(sample.at)) for sample in rows]
    connection.executemany("DELETE FROM samples WHERE uuid = ? AND at = ?", gone)
    add(connection, thinned(rows, now))


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
    """Both in one, at the time of the earlier; the higher figure counts, and one that is known over one that is not.

    But no work is what all of them must say: one that is not known next to it makes it not known.
    """
    return replace(
        one,
        utilization_percent=_busier(one.utilization_percent, other.utilization_percent),
        memory_used_bytes=_higher(one.memory_used_bytes, other.memory_used_bytes),
        processes=_higher(one.processes, other.processes),
        login=one.login or other.login,
        shared=one.shared + other.shared,
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _busier(one: int | None, other: int | None) -> int | None:
    return _higher(one, other) or (None if None in (one, other) else 0)


def _encoded(sample: Sample) -> tuple[object, ...]:
    return instant_text(sample.at), *(getattr(sample, name) for name in _NAMES[1:])


def _decoded(values: tuple[str, str, int | None, int | None, int | None, str, int | None, int]) -> Sample:
    at, uuid, utilization, memory, processes, instance, login, shared = values
    known = None if login is None else bool(login)
    return Sample(instant(at), uuid, utilization, memory, processes, instance, known, shared)
