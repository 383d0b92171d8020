"""The hard cases of the protocol that need time and the tick: scenarios in tests/cases/agenda."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from agenda_worlds import Lab

FOLDER = Path(__file__).parents[2] / "cases/agenda"
CASES = [case for path in sorted(FOLDER.glob("*.yaml")) for case in yaml.safe_load(path.read_text())]
CHECKS = {"holds", "in_state", "ends", "reservations", "claims", "claim_dies", "happened", "never", "told", "refused"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["promise"])
def test_hard_case(case: dict[str, Any], tmp_path: Path) -> None:
    """Each case's own promise."""
    assert CHECKS & set(case["steps"][-1]), "a case that ends without a check promises nothing"
    lab = Lab(tmp_path, case)
    for number, step in enumerate(case["steps"], start=1):
        try:
            lab.play(step)
        except AssertionError as error:
            pytest.fail(f"step {number}, {step}: {error}")
    lab.end()
