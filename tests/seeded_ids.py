"""Ids that are no accident: the same steps give the same ones, and so the same order wherever an id decides it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_dice = random.Random(0)  # noqa: S311 -- names for rows, no secrets


def begin_anew() -> None:
    """The ids that follow are those of a first run."""
    _dice.seed(0)


@contextmanager
def seeded_ids() -> Iterator[None]:
    """Every id that is drawn at random comes from a seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=_dice.getrandbits(128), version=4))
        begin_anew()
        yield
