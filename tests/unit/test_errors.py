"""The catalogue of errors: each code raised is explained, each one explained is raised."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lxgpu.errors import CATALOGUE, Exit, LxgpuError

PACKAGE = Path(__file__).resolve().parents[2] / "lxgpu"
FOR_LATER = {"findings"}
"""Codes that commands still to come will raise."""


def _raised() -> dict[str, str]:
    """Code → a place that makes a LxgpuError of it by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("LxgpuError") and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    found[str(first.value)] = f"{path.relative_to(PACKAGE)}:{node.lineno}"
    return found


def _words() -> set[str]:
    """Every text constant outside the catalogue."""
    return {
        node.value
        for path in PACKAGE.rglob("*.py")
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_that_is_raised_has_an_entry():
    """An error without an entry would itself be a fault."""
    assert not {code: place for code, place in _raised().items() if code not in CATALOGUE}


def test_every_entry_is_used():
    """The catalogue explains nothing that cannot happen."""
    assert not set(CATALOGUE) - _words() - FOR_LATER


@pytest.mark.parametrize("code", CATALOGUE)
def test_an_entry_is_a_sentence_and_its_status_no_success(code):
    """`lxgpu explain CODE` has something to say."""
    entry = CATALOGUE[code]
    assert entry.status is not Exit.OK
    assert entry.text.endswith(".")
    assert code.replace("_", "").isalpha()
    assert code == code.lower()


def test_one_reason_may_be_a_plain_text():
    """`why="…"` is one reason, not a list of letters."""
    assert LxgpuError("usage", "x", why="one").why == ("one",)
    assert LxgpuError("usage", "x", why=["one", "two"]).why == ("one", "two")
    assert LxgpuError("usage", "x").status is Exit.USAGE
