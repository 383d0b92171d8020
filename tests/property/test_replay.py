"""The same deeds give the same history: no order of a set, no earlier run and no random id has a say in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def replayed(hash_seed: int) -> list[str]:
    """The history of the same deeds in a process of its own, where sets of strings have another order."""
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    told = subprocess.run(
        [sys.executable, TESTS / "replay.py"],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout.splitlines()


def test_the_same_deeds_give_the_same_history_in_every_process() -> None:
    """Line by line."""
    first = replayed(1)
    assert len(first) > 100
    assert replayed(2) == first
