"""The policy of a process that lives long: read again when its file changes, the last good one while it is broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lxgpu.config.inforce import policy_in_force
from lxgpu.config.kept import read_kept, stamp
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy
from lxgpu.services.sections import words

_MOST = 50
"""So many changes or mistakes go into one line of history."""
_MENDED = "the file is good again"
_GONE = object()


@dataclass(frozen=True, slots=True)
class PolicyNews:
    """What became of the file: `policy_changed` or `policy_refused`, in words, and with the details for the history."""

    kind: str
    text: str
    detail: Mapping[str, object] = field(default_factory=dict)


class PolicyWatch:
    """The policy in force, without any reading, and `look` for when the file may have changed.

    `error` says why the file is not in force; empty when it is.
    """

    def __init__(self, path: Path, *, kept: Path) -> None:
        """Read it.

        Raises:
            LxgpuError: `bad_file`: it is broken or missing, and no good one is kept.
        """
        self._path = path
        self._kept = kept
        self._stamp = stamp(path)
        found = policy_in_force(path, kept=kept)
        self._policy = found.policy
        self._plain = self._values()
        self._refused: str = ""
        self._at_start = self._broken(found.broken) if found.broken else None
        self.error = words(found.broken) if found.broken else ""

    def current(self) -> Policy:
        """The policy in force."""
        return self._policy

    def look(self, *, anew: bool = False) -> PolicyNews | None:
        """Read the file if it is not the one read last, or in any case with `anew`; gives what is new, once."""
        if self._at_start is not None:
            news, self._at_start = self._at_start, None
            return news
        now = stamp(self._path)
        # None: changed a moment ago, so its times do not tell yet whether it changes once more.
        if not anew and now is not None and now == self._stamp:
            return None
        self._stamp = now
        try:
            found = policy_in_force(self._path, kept=self._kept)
        except LxgpuError as error:  # nothing is kept: on a full disk, say. What is in memory was good all the same
            return self._broken(error)
        if found.broken is not None:
            return self._broken(found.broken)
        mended = bool(self._refused)
        self.error = self._refused = ""
        return self._good(found.policy, mended=mended)

    def _good(self, policy: Policy, *, mended: bool) -> PolicyNews | None:
        """What a file without mistakes brings; `mended`: the one before had some."""
        if policy == self._policy:
            return PolicyNews("policy_changed", _MENDED, {"note": _MENDED}) if mended else None
        before, self._policy, self._plain = self._plain, policy, self._values()
        changes = changed(before, self._plain)
        text = "; ".join(f"{name}: {old} → {new}" for name, (old, new) in changes.items())
        text = text or "it is another one now"
        if mended:
            return PolicyNews("policy_changed", f"{_MENDED}; {text}", {"note": _MENDED, "changes": changes})
        return PolicyNews("policy_changed", text, {"changes": changes})

    def _broken(self, error: LxgpuError) -> PolicyNews | None:
        self.error = words(error)
        if self._refused == self.error:
            return None
        self._refused = self.error
        wrong = [f"{one.where}: {one.text}" for one in error.problems[:_MOST]] or [error.brief]
        return PolicyNews("policy_refused", "; ".join(wrong), {"mistakes": wrong})

    def _values(self) -> Mapping[str, object]:
        """The plain values of the policy just read, by dotted name."""
        kept = read_kept(self._kept)
        return flat(kept["plain"]) if kept else {}


def flat(value: object, name: str = "") -> dict[str, object]:
    """The leaves of nested mappings by dotted name; a list is a leaf."""
    if not isinstance(value, Mapping):
        return {name: value}
    found: dict[str, object] = {}
    for key, inner in value.items():
        found |= flat(inner, f"{name}.{key}" if name else str(key))
    return found


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, list[object]]:
    """What is not the same, old and new (None: not there), by name; the first few of them. Nothing if one is empty."""
    if not before or not after:
        return {}
    names = [name for name in sorted({*before, *after}) if before.get(name, _GONE) != after.get(name, _GONE)]
    return {name: [before.get(name), after.get(name)] for name in names[:_MOST]}
