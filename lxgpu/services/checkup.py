"""What a check-up knows and what it finds: checks as data, each with the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from lxgpu.config.inforce import InForce
from lxgpu.config.settings import Settings
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu, Readings
from lxgpu.model.instance import Sighting
from lxgpu.policy.drift import Finding
from lxgpu.ports import Image, Network, Pool, Server
from lxgpu.ports.facts import HostFacts

T = TypeVar("T")
Told_co = TypeVar("Told_co", covariant=True)


class Verdict(StrEnum):
    """What a check says: `unknown` is neither good nor bad, it could not be looked at."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Repair:
    """What `doctor --fix` would do: `kind` sysctl, mode, nodes or drift; `subject` which one, `value` the new value."""

    kind: str
    subject: str = ""
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: schema `lxgpu.checks/v1`. `repair` is None where only a person can mend it."""

    id: str
    verdict: Verdict
    text: str
    remedy: str = ""
    repair: Repair | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Answer(Generic[Told_co]):
    """A value, or why there is none."""

    value: Told_co | None = None
    error: LxgpuError | None = None

    @property
    def why(self) -> str:
        """The error in one line."""
        if self.error is None:
            return "not looked at"
        wrong = (f"{one.where}: {one.text}".removeprefix(": ") for one in self.error.problems)
        return "; ".join((self.error.brief, *self.error.why, *wrong))


def ask(question: Callable[[], T]) -> Answer[T]:
    """Ask, and keep the error as an answer: a check-up goes on."""
    try:
        return Answer(question())
    except LxgpuError as error:
        return Answer(error=error)


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything a check-up looked at.

    `profiles` are the devices of LXD's profiles by name, `passes` the broken files of the page's passes.
    """

    host: HostFacts
    settings: Answer[Settings]
    server: Answer[Server] = Answer()
    pool: Answer[Pool] = Answer()
    network: Answer[Network] = Answer()
    images: Answer[tuple[Image, ...]] = Answer()
    sightings: Answer[tuple[Sighting, ...]] = Answer()
    profiles: Answer[Mapping[str, Mapping[str, Mapping[str, str]]]] = Answer()
    gpus: Answer[tuple[Gpu, ...]] = Answer()
    readings: Readings | None = None
    database: Answer[bool] = Answer()
    findings: Answer[tuple[Finding, ...]] = Answer()
    policy: Answer[InForce] = Answer()
    passes: Answer[tuple[Path, ...]] = Answer()


Look = Callable[[Seen], Iterator[Check]]
