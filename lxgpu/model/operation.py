"""The journal: what is being done, and what was done by whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class OperationState(StrEnum):
    """`open` goes forward, `undoing` goes back; both are resumed after a crash."""

    OPEN = "open"
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of the world in idempotent steps.

    `position` counts the steps of the present direction that are done; `step` names the one in
    hand. `args` is what the steps need to know, JSON values only. `error` is why it was undone.
    """

    id: str
    kind: str
    instance: str
    created_at: datetime
    actor: str
    args: Mapping[str, object] = field(default_factory=dict)
    state: OperationState = OperationState.OPEN
    position: int = 0
    step: str = ""
    due_at: datetime | None = None
    closed_at: datetime | None = None
    error: str = ""

    @property
    def live(self) -> bool:
        """Whether steps are left to take."""
        return self.state in {OperationState.OPEN, OperationState.UNDOING}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of history: who did what to whom, by which rule, with the numbers in `detail`."""

    at: datetime
    actor: str
    kind: str
    subject: str
    rule: str = ""
    detail: Mapping[str, object] = field(default_factory=dict)
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Which inventory this is. The epoch rises at each take-over, so that old writers stop."""

    inventory: str
    epoch: int
