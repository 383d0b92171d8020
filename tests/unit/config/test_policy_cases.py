"""Bad policy files and the complete list of what is told about each; the files are in tests/cases/policy/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lxgpu.config.policy import load_policy
from lxgpu.errors import Exit, LxgpuError

CASES = Path(__file__).resolve().parents[2] / "cases" / "policy"


def _cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        found += [pytest.param(case, id=case["id"]) for case in yaml.safe_load(path.read_text(encoding="utf-8"))]
    return found


def _told(case: dict[str, Any], path: Path) -> LxgpuError | None:
    path.write_bytes(case["text"].encode())
    try:
        load_policy(path, cards=case.get("cards"))
    except LxgpuError as error:
        return error
    return None


@pytest.mark.parametrize("case", _cases())
def test_every_mistake_is_told_at_once_and_in_its_place(case, tmp_path):
    """The list is complete, in the order of the lines, and each entry names line, column, path and what is wrong."""
    path = tmp_path / "policy.yaml"
    error = _told(case, path)
    problems = error.problems if error else ()
    told = [f"{problem.where.removeprefix(f'{path}:')}: {problem.text}" for problem in problems]
    assert len(told) == len(case["problems"]), "\n".join(told)
    for text, start in zip(told, case["problems"], strict=True):
        assert text.startswith(start)
    assert error is None or (error.code, error.status) == ("bad_file", Exit.USAGE)


@pytest.mark.parametrize("case", [case for case in _cases() if case.values[0]["text"].isascii()])
def test_the_caret_stands_below_the_place(case, tmp_path):
    """Each excerpt is the line of the file and a caret at the column that is named."""
    path = tmp_path / "policy.yaml"
    error = _told(case, path)
    lines = case["text"].split("\n")
    for problem in error.problems if error else ():
        line, column = (int(part) for part in problem.where.removeprefix(f"{path}:").split(":")[:2])
        shown, caret = problem.excerpt.split("\n")
        assert shown == lines[line - 1].replace("\a", "\ufffd")
        assert caret.index("^") == column - 1
