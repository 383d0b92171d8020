"""The kinds of values in our files, as pydantic types: text that one of our grammars reads.

A model keeps the text as it was written; `lxgpu.config.build` turns it into numbers. So a file that was checked
once can be read again without pydantic. Importing this costs 100 ms; import it where a file is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lxgpu.errors import LxgpuError
from lxgpu.instants import load_zone, parse_day, parse_utc
from lxgpu.model.gpu import PROFILE
from lxgpu.model.names import check_name, check_person
from lxgpu.model.quota import EVERYBODY
from lxgpu.units import parse_count_per, parse_duration, parse_duration_per, parse_percent, parse_size

_UNIX_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?")
_MAIL = re.compile(r"[^\s@,;:<>\"\\()\[\]]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_SLICE = re.compile(PROFILE)
_CARD = re.compile(r"GPU-[0-9a-f][0-9a-f-]*[*…]?")


class Strict(BaseModel):
    """A mapping of the file: no unknown names, no value taken for another kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def reads(parse: Callable[[str], object]) -> AfterValidator:
    """A validator that asks one of our grammars and keeps the text."""

    def check(text: str) -> str:
        try:
            parse(text)
        except LxgpuError as error:
            words = [error.brief, *error.why] + ([error.fix] if error.fix else [])
            raise ValueError("; ".join(words)) from error
        return text

    return AfterValidator(check)


def empty_is_none_given(value: object) -> object:
    """A section whose lines are all commented out is an empty one."""
    return {} if value is None else value


SECTION = BeforeValidator(empty_is_none_given)


def optional(
    description: str = "",
    *,
    default: object = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    alias: str | None = None,
) -> Any:  # noqa: ANN401 -- what pydantic's own Field returns
    """A value that may be left out, but not be given without a value; None as the default is no default at all."""
    return Field(
        default=default, description=description or None, ge=ge, gt=gt, le=le, min_length=min_length, alias=alias
    )


def subject(text: str) -> None:
    """Checks a person, or a Unix group of the host written `@group`."""
    if text.startswith("@"):
        if not _UNIX_NAME.fullmatch(text[1:]):
            raise LxgpuError("bad_name", f"{text!r} names no Unix group", why="a Unix group is written @name")
    elif text != "root":
        check_person(text)


def _anybody(text: str) -> None:
    if text != EVERYBODY:
        subject(text)


def _mail(text: str) -> None:
    if not _MAIL.fullmatch(text) or ".." in text:
        raise LxgpuError("usage", f"{text!r} is no mail address")


def _line(text: str) -> None:
    if not text.strip() or not text.isprintable():
        raise LxgpuError("usage", "one line of text is wanted")


def _slice(text: str) -> None:
    if not _SLICE.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no MIG profile", why="a MIG profile is written like 3g.20gb")


def _card(text: str) -> None:
    if not _CARD.fullmatch(text):
        raise LxgpuError(
            "usage",
            f"{text!r} names no card",
            why="a card is named by its UUID, GPU-3f2a6c1e-…, or by the start of it and a star: GPU-3f2a*",
        )


def day_or_utc(text: str) -> None:
    """Checks a date, or RFC 3339 with an offset; the lab's zone is not known here, but decides only the moment."""
    if len(text) == len("2027-05-01"):
        parse_day(text, zone=load_zone("UTC"))
    else:
        try:
            parse_utc(text)
        except LxgpuError as error:
            raise LxgpuError(
                "bad_time",
                f"{text!r} is no date",
                why="a date is written 2027-05-01 (its start), or 2027-05-01T09:00:00Z",
            ) from error


def _absolute(text: str) -> None:
    parts = text.split("/")
    if not text.startswith("/") or not text.isprintable() or any(part in (".", "..") for part in parts):
        raise LxgpuError("usage", f"{text!r} is no path", why="a path starts with / and has no . or .. in it")


def _reserve(text: str) -> None:
    parse_percent(text) if text.endswith("%") else parse_size(text)


Duration = Annotated[str, reads(parse_duration), Field(examples=["30s", "90m", "4h", "2d", "1d12h"])]
Size = Annotated[str, reads(parse_size), Field(examples=["512MiB", "64GiB", "2GB"])]
Percent = Annotated[str, reads(parse_percent), Field(examples=["90%"])]
Reserve = Annotated[str, reads(_reserve), Field(examples=["10%", "4GiB"])]
CountPer = Annotated[str, reads(parse_count_per), Field(examples=["2/1d"])]
DurationPer = Annotated[str, reads(parse_duration_per), Field(examples=["8h/7d"])]
Moment = Annotated[str, reads(day_or_utc), Field(examples=["2027-05-01", "2027-05-01T09:00:00Z"])]
Zone = Annotated[str, reads(load_zone), Field(examples=["Asia/Shanghai", "UTC"])]
Name = Annotated[str, reads(check_name)]
Person = Annotated[str, reads(check_person)]
Subject = Annotated[str, reads(subject), Field(examples=["alice", "@gpu-admins"])]
Anybody = Annotated[str, reads(_anybody), Field(examples=["alice", "@vision", "*"])]
Mail = Annotated[str, reads(_mail)]
Line = Annotated[str, reads(_line), Field(max_length=200)]
Slice = Annotated[str, reads(_slice), Field(examples=["3g.20gb"])]
CardName = Annotated[str, reads(_card), Field(examples=["GPU-3f2a*"])]
HostPath = Annotated[str, reads(_absolute), Field(examples=["/data/imagenet"])]
Cards = Annotated[int, Field(ge=0, le=100_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Processes = Annotated[int, Field(ge=64, le=4_194_304)]


class PerGpuEntry(Strict):
    """What each card adds to a container's limits."""

    cpu: Annotated[int, Field(ge=0, le=4096)] = optional()
    memory: Size = optional()
