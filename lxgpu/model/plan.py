"""Answers of the policy: what was decided, why, and what would be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lxgpu.model.gpu import Slot


class Verdict(StrEnum):
    """The four answers to a request."""

    GRANTED = "granted"
    AFTER_PREEMPTION = "granted_after_preemption"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reason:
    """A stable code for scripts and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One thing that will be done; `at` is None for "at once"."""

    do: str
    instance: str
    gpu: str | None = None
    at: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision with the steps that carry it out. `slots` are the ones granted."""

    decision: Verdict
    reasons: tuple[Reason, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    slots: tuple[Slot, ...] = ()
    victims: tuple[str, ...] = ()
    when: datetime | None = None
