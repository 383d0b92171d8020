"""`class.csv` for `create --from`: one row a person, read whole before anything is made, every bad row told at once.

The header line names the columns, in any order: name (must be there), key, gpus, class, profile, image, model, owner,
expires, cpu, memory, disk, processes. An empty field means "not said". `key` is a public key, or several on their own
lines inside quotes. Fields are separated by commas, or by semicolons where the header has those (as some spreadsheets
write them).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from difflib import get_close_matches
from typing import Any

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.config.source import Mark, Source
from lxgpu.errors import LxgpuError, Problem
from lxgpu.instants import parse_instant
from lxgpu.model.names import check_name, check_person
from lxgpu.model.quota import NOTHING, Terms
from lxgpu.units import parse_size

COLUMNS = (
    "name",
    "key",
    "gpus",
    "class",
    "profile",
    "image",
    "model",
    "owner",
    "expires",
    "cpu",
    "memory",
    "disk",
    "processes",
)
MOST_ROWS = 2000
_HEADER = 1


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One person of a class file; empty texts and None mean "not said". `line` is where the row begins."""

    line: int
    name: str
    owner: str
    keys: tuple[PublicKey, ...] = ()
    gpus: int = 0
    class_name: str = ""
    profile: str = ""
    image: str = ""
    model: str = ""
    expires: datetime | None = None
    terms: Terms = NOTHING


def parse_class(source: Source, *, now: datetime, zone: tzinfo) -> tuple[ClassRow, ...]:
    """Reads the text of a class file.

    Args:
        source: the text and its name.
        now: what `expires` is counted from (`+30d`), and must lie after.
        zone: the lab's zone, for dates without an offset.

    Raises:
        LxgpuError: `bad_file`, with every mistake in `problems`, each with its line.
    """
    problems: list[Problem] = []
    rows: list[ClassRow] = []
    lines = list(_rows(source))
    if not lines:
        raise source.error(
            [source.problem(Mark(1, 1), f"the header is missing, such as {','.join(COLUMNS[:3])}", path="")]
        )
    header = [name.strip().lower() for name in lines[0][1]]
    problems += _header_problems(source, header)
    if not problems:
        first_lines: dict[str, int] = {}
        for number, fields in lines[1 : MOST_ROWS + 2]:
            row = _row(source, header, number, fields, problems=problems, now=now, zone=zone)
            if row.name and row.name in first_lines:
                text = f"{row.name} stands in line {first_lines[row.name]} already"
                problems.append(source.problem(Mark(number, 1), text, path="name"))
            first_lines.setdefault(row.name, number)
            rows.append(row)
        if not rows:
            problems.append(Problem("there is no row below the header", where=source.name))
        if len(rows) > MOST_ROWS:
            problems.append(Problem(f"more than {MOST_ROWS} rows", where=source.name))
    if problems:
        raise source.error(problems)
    return tuple(rows)


def _rows(source: Source) -> Iterator[tuple[int, list[str]]]:
    """The rows and the line each begins in; rows without any text are passed over."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source.text)
    head = next((line for line in lines if line.strip()), "")
    delimiter = ";" if head.count(";") > head.count(",") else ","
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    begin = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise source.error([source.problem(Mark(begin, 1), f"the row is no CSV: {error}", path="")]) from error


def _header_problems(source: Source, header: list[str]) -> list[Problem]:
    texts = []
    for place, name in enumerate(header):
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(COLUMNS)}"
            texts.append(f"unknown column {name!r}; {hint}")
        elif name in header[:place]:
            texts.append(f"the column {name} stands twice")
    if "name" not in header:
        texts.append("the column name is missing")
    return [source.problem(Mark(_HEADER, 1), text, path="") for text in texts]


def _row(
    source: Source,
    header: list[str],
    number: int,
    fields: list[str],
    *,
    problems: list[Problem],
    now: datetime,
    zone: tzinfo,
) -> ClassRow:
    """One row; what is wrong with it is added to `problems`."""
    mark = Mark(number, 1)
    if len(fields) != len(header):
        text = f"{len(fields)} fields, and the header has {len(header)}"
        problems.append(source.problem(mark, text, path=""))
    given = {name: field.strip() for name, field in zip(header, fields, strict=False) if field.strip()}
    values: dict[str, Any] = {}
    for name, read in _readers(now, zone).items():
        try:
            if name in given:
                values[name] = read(given[name])
        except LxgpuError as error:
            words = [error.brief, *error.why, *(problem.text for problem in error.problems)]
            problems.append(source.problem(mark, "; ".join(words), path=name))
    if not given.get("name"):
        problems.append(source.problem(mark, "the name is missing", path="name"))
    name = given.get("name", "")
    if name and not given.get("owner"):
        _check_as_person(source, mark, name, problems)
    return ClassRow(
        line=number,
        name=name,
        owner=given.get("owner", name),
        keys=values.get("key", ()),
        gpus=values.get("gpus", 0),
        class_name=values.get("class", ""),
        profile=values.get("profile", ""),
        image=given.get("image", ""),
        model=given.get("model", ""),
        expires=values.get("expires"),
        terms=Terms(
            cpu=values.get("cpu"),
            memory_bytes=values.get("memory"),
            disk_bytes=values.get("disk"),
            processes=values.get("processes"),
        ),
    )


def _check_as_person(source: Source, mark: Mark, name: str, problems: list[Problem]) -> None:
    """A name without an owner is the owner's as well."""
    try:
        check_name(name)
    except LxgpuError:
        return  # told already, as the name of the container
    try:
        check_person(name)
    except LxgpuError as error:
        problems.append(source.problem(mark, "; ".join([error.brief, *error.why]), path="name"))


def _readers(now: datetime, zone: tzinfo) -> dict[str, Callable[[str], object]]:
    return {
        "name": check_name,
        "owner": check_person,
        "key": parse_keys,
        "gpus": lambda text: _number(text, least=0),
        "class": check_name,
        "profile": check_name,
        "expires": lambda text: _later(text, now=now, zone=zone),
        "cpu": lambda text: _number(text, least=1),
        "memory": parse_size,
        "disk": parse_size,
        "processes": lambda text: _number(text, least=64),
    }


def _number(text: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) < least:
        raise LxgpuError("usage", f"{text!r} is no whole number from {least} on")
    return int(text)


def _later(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    at = parse_instant(text, now=now, zone=zone)
    if at <= now:
        raise LxgpuError("bad_time", f"{text} is over already")
    return at
