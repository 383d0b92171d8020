"""What a container may send: strict, small, and without anything that a terminal would obey."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from lxgpu.services.passes import LONGEST_TEXT
from lxgpu.units import LONGEST_S

MOST_GPUS, MOST_WORDS = 1024, 200
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
_SOME = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
"""The same, with something in it that can be seen."""


def _whole(value: object) -> object:
    """`2.0` is the number 2 in JSON, whoever writes it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS), BeforeValidator(_whole)]
Seconds = Annotated[int, Field(ge=1, le=LONGEST_S), BeforeValidator(_whole)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_WORDS, pattern=_SOME)]
When = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PLAIN)]
Model = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=PLAIN)]
ClassName = Annotated[str, StringConstraints(max_length=63, pattern=PLAIN)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MOST_WORDS, pattern=PLAIN)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT, pattern=r"^[A-Za-z0-9_-]*$")]
KeyText = Annotated[str, StringConstraints(min_length=1, max_length=16384)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PLAIN)]


_GIVEN = {"not": {"type": "null"}}


def _with(*names: str) -> dict[str, Any]:
    """A part of a schema: these fields are there, and not null."""
    return {"required": list(names), "properties": dict.fromkeys(names, _GIVEN)}


class Body(BaseModel):
    """A request's body: no field but those named, no value of another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Release(Body):
    """Give `gpus` cards back, all when null; cards in use only with `busy`."""

    gpus: Gpus | None = None
    busy: bool = False


class Extend(Body):
    """Hold the cards for `seconds` longer."""

    seconds: Seconds


class Keep(Body):
    """Leave idle cards to us for `seconds`, since `reason`."""

    seconds: Seconds
    reason: Reason


class Reserve(Body):
    """`gpus` cards for `seconds` or `until` a time, from `at` (null: soon), once or `weekly`.

    Times are written as on the command line, in the lab's zone. `class` is a priority class, empty for the person's
    own; `note` says to everybody what it is for.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [_with("seconds"), _with("until")]})

    gpus: Gpus
    seconds: Seconds | None = None
    until: When | None = None
    at: When | None = None
    weekly: bool = False
    model: Model = "*"
    class_name: ClassName = Field(default="", alias="class")
    note: Note = ""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.seconds is None) == (self.until is None):
            raise ValueError("give seconds or until, one of them")
        return self


class Edit(Body):
    """Change a reservation of one's own: `gpus` in all, its length or `until`, its start `at`, its `note`.

    What is left out or null stays as it is; an empty note takes it away. Times are written as in `Reserve`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_with(name) for name in ("gpus", "seconds", "until", "at", "note")],
            "not": _with("seconds", "until"),
        }
    )

    id: Identifier
    gpus: Gpus | None = None
    seconds: Seconds | None = None
    until: When | None = None
    at: When | None = None
    note: Note | None = None

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.seconds is not None and self.until is not None:
            raise ValueError("give seconds or until, not both")
        if all(value is None for value in (self.gpus, self.seconds, self.until, self.at, self.note)):
            raise ValueError("nothing is to be changed")
        return self


class May(Body):
    """Whether `gpus` cards can be held at all."""

    gpus: Gpus


class Cancel(Body):
    """Withdraw one's own reservation."""

    id: Identifier


class Enter(Body):
    """A one-time link's text, or an invitation's."""

    token: Token


class NewKey(Body):
    """An invitation's text, and the public key that it is used up for."""

    token: Token
    key: KeyText
