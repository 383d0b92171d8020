"""An error is three things: what happened, why, and what to do; whatever code it has and whoever raised it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lxgpu
from lxgpu.cli.commands import place_of
from lxgpu.cli.failure import error_object, error_text, with_fix
from lxgpu.errors import CATALOGUE, LxgpuError, Problem
from lxgpu.model.plan import Plan, Reason, Verdict
from lxgpu.model.quota import Policy
from lxgpu.services.nextsteps import FIX, completed, reason_of
from lxgpu.services.refusal import refusal

SOURCES = sorted(Path(lxgpu.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("code", CATALOGUE)
def test_no_error_goes_out_without_why_and_fix(code: str) -> None:
    """Also where whoever raised it said neither; the same in words and as JSON."""
    told = with_fix(LxgpuError(code, "something"), ["reserve", "bob"])
    assert told.why
    assert all(told.why)
    assert told.fix
    lines = error_text(told).splitlines()
    assert lines[0] == f"error[{code}] something"
    assert [line[:5] for line in lines[1:]] == ["why: ", "fix: "]
    document = error_object(told)
    assert document["why"]
    assert document["fix"]


def test_what_is_known_better_stays() -> None:
    """Its own reasons and remedy; mistakes of a file are reasons enough."""
    error = completed(LxgpuError("no_capacity", "x", why="y", fix="z"))
    assert (error.why, error.fix) == (("y",), "z")
    mistakes = completed(LxgpuError("bad_file", "x", problems=[Problem("odd")]))
    assert mistakes.why == ()
    assert mistakes.fix


def test_each_code_has_a_next_step_and_no_other_has() -> None:
    """The two tables are of the same codes."""
    assert FIX.keys() == CATALOGUE.keys()


def commands_in(text: str) -> Iterator[str]:
    """The commands of lxgpu that a text names."""
    words = text.replace("(", " ").replace(")", " ").replace(";", " ;").replace(",", " ,").split()
    for at, word in enumerate(words):
        if word.strip("`") == "lxgpu" and at + 1 < len(words) and words[at + 1].isalpha():
            yield words[at + 1]


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_next_step_names_commands_that_there_are(code: str) -> None:
    """Whoever is told to type something can."""
    names = [name for name in commands_in(FIX[code]) if name not in {"with", "of", "do"}]
    assert [name for name in names if place_of(name) is None] == []


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_refused_plan_is_an_error_with_a_next_step(code: str) -> None:
    """Each reason of the policy, in a rehearsal as in earnest."""
    if code in {"inventory_damaged", "internal"} or CATALOGUE[code].status not in {2, 3, 4, 5, 6, 7}:
        return
    plan = Plan(Verdict.REFUSED, (Reason(code, "so it is"),))
    error = refusal(plan, "reserve bob", Policy(contact="help@lab.example"))
    assert error is not None
    assert error.fix
    assert with_fix(error, ()).why


def test_reasons_are_whole_sentences() -> None:
    """Cut at the first full stop, and not in the middle of a word."""
    for code in CATALOGUE:
        text = reason_of(code)
        assert len(text) > 10, code
        assert text.count("`") % 2 == 0, (code, text)
        assert text.count("(") == text.count(")"), (code, text)


def test_every_error_that_is_raised_has_a_code_of_the_catalogue() -> None:
    """So that none can go out without its three parts."""
    raised = set()
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "LxgpuError":
                code = call.args[0] if call.args else None
                if isinstance(code, ast.Constant):
                    raised.add(code.value)
    assert len(raised) > 30
    assert raised <= CATALOGUE.keys()
