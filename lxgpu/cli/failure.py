"""What a person or a script gets to see of an error. Pure; `cli/main.py` decides when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lxgpu.cli.commands import place_of
from lxgpu.errors import Exit, LxgpuError


def error_text(error: LxgpuError) -> str:
    """Returns the lines for stderr: what, each problem with its excerpt, the reasons, the next step."""
    lines = [f"error[{error.code}] {error.brief}"]
    for problem in error.problems:
        lines.append(f"{problem.where}: {problem.text}" if problem.where else f"- {problem.text}")
        lines += [f"    {line}" for line in problem.excerpt.splitlines()]
    for reason in error.why:
        lines += _labelled("why:", reason)
    if error.fix:
        lines += _labelled("fix:", error.fix)
    return "\n".join(lines)


def _labelled(label: str, text: str) -> list[str]:
    first, *more = text.splitlines() or [""]
    return [f"{label} {first}", *(" " * (len(label) + 1) + line for line in more)]


def with_fix(error: LxgpuError, words: Sequence[str]) -> LxgpuError:
    """The error with all three parts; wrong usage without a remedy names the help page of the command in `words`."""
    from lxgpu.services.nextsteps import completed  # noqa: PLC0415 -- only when something is shown

    if error.status is Exit.USAGE and not error.fix and not error.problems:
        named = next((word for word in words if place_of(word) is not None), "")
        error.fix = f"lxgpu {named} --help" if named else "lxgpu --help"
    return completed(error)


def error_object(error: LxgpuError) -> dict[str, object]:
    """Returns the value of `error` in JSON output, the same keys every time."""
    problems = [{"where": item.where, "text": item.text, "excerpt": item.excerpt} for item in error.problems]
    return {
        "code": error.code,
        "message": error.brief,
        "why": list(error.why),
        "fix": error.fix or None,
        "problems": problems,
        "details": error.details,
    }


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, read off its words.

    Parsing may be what failed, so this looks at the words as they are, up to `--`.
    """
    words = list(argv)
    if "--" in words:
        words = words[: words.index("--")]
    if "--json" in words or "-ojson" in words or "--output=json" in words:
        return True
    return any(word in {"-o", "--output"} and after == "json" for word, after in pairwise(words))
