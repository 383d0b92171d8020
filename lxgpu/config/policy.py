"""Reading policy.yaml: every mistake at once, or the policy as values.

The program never writes this file. A broken one is refused, and the last good one stays in force: see
`lxgpu.config.inforce`.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxgpu.config.build import build_policy
from lxgpu.errors import LxgpuError, Problem
from lxgpu.model.quota import Policy

if TYPE_CHECKING:
    from lxgpu.config.check import Finding
    from lxgpu.config.sense import UnixGroups
    from lxgpu.config.yamlload import Document, Steps

_GONE = object()
_NEUTRAL: dict[str | int, object] = {"limit": 100_000, "horizon": "3650d"}
"""What stands for a wrong bound, so that no second mistake is made of the first: a bound that nothing exceeds."""


def no_unix_groups(person: str) -> Collection[str]:  # noqa: ARG001 -- the shape of UnixGroups
    """For places where the host's groups are not known: nobody is in any."""
    return ()


def load_policy(path: Path, *, cards: int | None = None, unix_groups: UnixGroups = no_unix_groups) -> Policy:
    """Reads a policy file.

    Args:
        path: the file, and the name that mistakes are shown under.
        cards: how many cards there are, if known: guarantees must not sum above it.
        unix_groups: who is in which Unix group of this host, for that sum.

    Raises:
        LxgpuError: `bad_file`, with all mistakes in `problems`.
    """
    return build_policy(read_policy(path, cards=cards, unix_groups=unix_groups))


def read_policy(path: Path, *, cards: int | None = None, unix_groups: UnixGroups = no_unix_groups) -> dict[str, Any]:
    """Reads a policy file and returns its checked plain values, as `build_policy` takes them.

    Raises:
        LxgpuError: `bad_file`, as `load_policy`.
    """
    from lxgpu.config.yamlload import load_yaml  # noqa: PLC0415 -- YAML is read where a file is

    try:
        there = path.exists()
    except OSError as error:  # such as a name that is too long
        raise LxgpuError("bad_file", f"{path} cannot be read", why=error.strerror or str(error)) from error
    if not there:
        raise LxgpuError(
            "bad_file",
            f"there is no policy file {path}",
            fix="write one; a line `version: 1` is enough to begin, and docs/policy.md shows the rest",
        )
    document = load_yaml(path)
    problems = policy_problems(document, cards=cards, unix_groups=unix_groups)
    if problems:
        raise document.source.error(problems)
    assert isinstance(document.value, dict)  # noqa: S101 -- checked above, for the type checker
    return document.value


def policy_problems(
    document: Document, *, cards: int | None = None, unix_groups: UnixGroups = no_unix_groups
) -> list[Problem]:
    """Everything wrong with a policy document, in no order; empty when it is right."""
    from lxgpu.config.check import check, check_values, problems  # noqa: PLC0415 -- pydantic
    from lxgpu.config.schema import PolicyFile  # noqa: PLC0415 -- pydantic
    from lxgpu.config.sense import guarantees, references, relations  # noqa: PLC0415 -- only for checking

    findings = check(document, PolicyFile)
    if not isinstance(document.value, dict):
        return problems(document, findings)
    known = {found.steps for found in findings}
    sound, wrong = _Sound(document.value), findings
    while wrong and sound.drop(wrong):
        wrong = check_values(sound.values, PolicyFile)
    findings += [found for found in references(document.value) if found.steps not in known]
    if not wrong:
        policy = build_policy(sound.values)
        findings += relations(policy, sound.overrides)
        if cards is not None:
            findings += guarantees(policy, sound.overrides, cards=cards, unix_groups=unix_groups)
    return problems(document, findings)


class _Sound:
    """What is left of a file's values without those that are wrong; `overrides` are their numbers in the file."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values: dict[str, Any] = values
        self.overrides = list(range(len(_overrides(values))))

    def drop(self, findings: list[Finding]) -> bool:
        """Drops what the findings are about; returns whether anything was left to drop."""
        copy: dict[str, Any] = deepcopy(self.values)
        for found in findings:
            # Without what it lacks a whole entry is of no use.
            _drop(copy, found.steps[:-1] if found.lacking else found.steps)
        copy["version"] = 1
        kept = zip(self.overrides, _overrides(copy), strict=False)
        self.overrides = [number for number, entry in kept if entry is not _GONE]
        before, self.values = self.values, _swept(copy)
        return self.values != before


def _overrides(values: dict[str, Any]) -> list[Any]:
    found = values.get("overrides")
    return found if isinstance(found, list) else []


def _drop(copy: dict[str, Any], steps: Steps) -> None:
    here: Any = copy
    for step in steps[:-1]:
        here = here[step] if _has(here, step) else _GONE
    if steps and _has(here, steps[-1]):
        here[steps[-1]] = _NEUTRAL.get(steps[-1], _GONE)


def _has(here: Any, step: str | int) -> bool:  # noqa: ANN401 -- plain values of any kind
    if isinstance(here, dict):
        return step in here
    return isinstance(here, list) and isinstance(step, int) and step < len(here)


def _swept(value: Any) -> Any:  # noqa: ANN401 -- plain values of any kind
    if isinstance(value, dict):
        return {name: _swept(inner) for name, inner in value.items() if inner is not _GONE}
    return [_swept(inner) for inner in value if inner is not _GONE] if isinstance(value, list) else value
