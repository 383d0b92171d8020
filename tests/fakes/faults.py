"""What can go wrong between lxgpu and LXD, to be injected into FakeEngine one call at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """How a call fails. "Applied" is what the world looks like, whatever the caller is told."""

    LATE = "late"
    """`outcome_unknown`; lands some calls later, unless its ETag is stale by then."""
    APPLIED_ERROR = "applied_error"
    """Applied, and answered with an `engine` error (a full disk does that)."""
    ERROR = "error"
    """`engine`, not applied."""
    LOST = "lost"
    """Applied, `outcome_unknown` (the operation vanished, the connection was cut)."""
    STALE = "stale"
    """`conflict` (412), not applied."""
    HANG = "hang"
    """`outcome_unknown`, and never applied."""
    DOWN = "down"
    """The daemon is away: `unavailable` for this call and some more."""
    HALF = "half"
    """An attach interrupted by the daemon's death: nodes inside and files on the host, but no device."""


class When(StrEnum):
    """Where the process is killed, seen from one write."""

    BEFORE = "before"
    AFTER = "after"
    LATE = "late"
    """After sending: the write lands some calls into the next life."""


class KilledError(BaseException):
    """Stands for kill -9 of lxgpu: no `except Exception` of ours may hold it up."""


@dataclass(slots=True)
class Injection:
    """One fault waiting for its call: the `nth` call that matches, or the write of that number."""

    fault: Fault | When
    call: str = ""
    name: str = ""
    nth: int = 1
    write: int | None = None
    after: int = 1

    def hits(self, call: str, name: str, number: int) -> bool:
        """Whether this call is the one; counts the calls that match."""
        if self.write is not None:
            return number == self.write
        if self.call not in {"", call} or self.name not in {"", name}:
            return False
        self.nth -= 1
        return self.nth == 0


@dataclass(slots=True)
class Pending:
    """A write that was sent and has not landed: due when so many calls were made; `guarded` by an ETag or not."""

    due: int
    name: str
    apply: Callable[[], None]
    guarded: bool
