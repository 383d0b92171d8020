"""A card that its holder leaves idle, lent on to somebody else until the holder comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lxgpu.model.gpu import Slot


class BorrowState(StrEnum):
    """The life of a borrowing: attaching → granted → lent ⇄ stopped → ending → closed.

    Granted: the card is in, and the sentry has not opened it yet. Stopped: the holder is at work, and the borrower's
    processes stand still.
    """

    ATTACHING = "attaching"
    GRANTED = "granted"
    LENT = "lent"
    STOPPED = "stopped"
    ENDING = "ending"
    CLOSED = "closed"

    __hash__ = str.__hash__


IN_PLACE = frozenset({BorrowState.ATTACHING, BorrowState.GRANTED, BorrowState.LENT, BorrowState.STOPPED})
"""The card is to be among the borrower's devices, whatever its rule says."""

PASSING = frozenset({BorrowState.ATTACHING, BorrowState.ENDING})
"""Somebody is at work on it, or has to go on with it."""

WATCHED = frozenset({BorrowState.GRANTED, BorrowState.LENT, BorrowState.STOPPED})
"""The sentry decides whether the borrower may use the card at this moment."""


@dataclass(frozen=True, slots=True)
class Borrowing:
    """The card of a holder in the hands of a borrower: no assignment, since the card stays its holder's.

    `assignment` is the holder's; without it there is no borrowing. `init` is the host's pid of the borrower's init:
    a container that was started anew has nothing borrowed. `since` is when the sentry opened the card last,
    `outcome` why it ended.
    """

    id: str
    slot: Slot
    instance: str
    holder: str
    assignment: str
    state: BorrowState
    created_at: datetime
    class_name: str = ""
    init: int = 0
    since: datetime | None = None
    closed_at: datetime | None = None
    outcome: str = ""

    @property
    def live(self) -> bool:
        """Whether it is not over yet."""
        return self.state is not BorrowState.CLOSED
