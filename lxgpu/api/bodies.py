"""What a container may send: strict, small, and without anything that a terminal would obey."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lxgpu.units import LONGEST_S

MOST_GPUS = 1024
_PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"

Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
Seconds = Annotated[int, Field(ge=1, le=LONGEST_S)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=_PLAIN)]
When = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_PLAIN)]
Model = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_PLAIN)]
ClassName = Annotated[str, StringConstraints(max_length=63, pattern=_PLAIN)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=_PLAIN)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_PLAIN)]


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


class May(Body):
    """Whether `gpus` cards can be held at all."""

    gpus: Gpus


class Cancel(Body):
    """Withdraw one's own reservation."""

    id: Identifier
