"""What people are told of cards that are lent on while their holders leave them idle; pure."""

from __future__ import annotations

from collections.abc import Iterator

from lxgpu.figures import n_gpus
from lxgpu.model.borrowing import Borrowing, BorrowState
from lxgpu.model.snapshot import Records

_OF_CARD = {
    BorrowState.LENT: "lent on to {row.instance} while {row.holder} leaves it idle",
    BorrowState.STOPPED: "{row.holder} is at work; what {row.instance} runs on it, lent on to them, stands still",
    BorrowState.ENDING: "is being taken back from {row.instance}, to whom it was lent on",
}
_OF_BORROWER = {
    BorrowState.LENT: "borrowed from {row.holder}, who leaves it idle: what runs on it may stop at any moment",
    BorrowState.STOPPED: "borrowed from {row.holder}, who is at work: what runs on it stands still meanwhile",
    BorrowState.ENDING: "was borrowed from {row.holder} and goes back: {row.outcome}",
}


def of_card(records: Records, uuid: str) -> str:
    """Who works on an idle card; empty where nobody does."""
    row = records.borrower(uuid)
    return "" if row is None else _OF_CARD.get(row.state, "is being lent on to {row.instance}").format(row=row)


def of_borrower(row: Borrowing) -> str:
    """How a borrowing stands, to who has it."""
    return _OF_BORROWER.get(row.state, "is being borrowed from {row.holder}").format(row=row)


def borrowed_by(records: Records, name: str) -> Iterator[tuple[Borrowing, str]]:
    """What a container has borrowed, with what is said of it."""
    return ((row, of_borrower(row)) for row in records.borrowings if row.instance == name and row.live)


def banner_line(records: Records, name: str) -> str:
    """What is borrowed, in a few words; empty when nothing is."""
    number = sum(1 for _ in borrowed_by(records, name))
    return f"{n_gpus(number)} borrowed: what runs there may stop at any moment" if number else ""
