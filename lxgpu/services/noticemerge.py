"""Notices that say the same of several cards are one message; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.model.reservation import Notice
from lxgpu.services.noticekinds import NOTICES, problems

_CARDS, _REASON, _SINCE = "gpus", "rule", "since"
_JOINED = frozenset({_CARDS, _REASON, _SINCE})


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent once, `spoken`, and the rows of the outbox that it stands for."""

    spoken: Notice
    rows: tuple[Notice, ...]


def messages(rows: Iterable[Notice]) -> list[Message]:
    """Rows of one kind for one container that differ in the cards alone become one message, in the place of the first.

    Reasons that differ are all told; of the times since when cards lie idle, the latest holds for all.
    """
    groups: dict[tuple[object, ...], list[Notice]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    return [Message(_spoken(group), tuple(group)) for group in groups.values()]


def _key(row: Notice) -> tuple[object, ...]:
    if not row.instance or problems(row.kind, row.facts) or not _list(row.facts.get(_CARDS)):
        return (row.id,)
    facts = sorted((name, repr(value)) for name, value in row.facts.items() if name not in _JOINED)
    return (row.kind, row.instance, row.person, *facts)


def _spoken(group: Sequence[Notice]) -> Notice:
    first = group[0]
    if len(group) == 1:
        return first
    facts = {**first.facts, _CARDS: list(dict.fromkeys(card for row in group for card in _list(row.facts[_CARDS])))}
    known = NOTICES[first.kind].facts
    if _REASON in known:
        facts[_REASON] = "; ".join(dict.fromkeys(str(row.facts[_REASON]) for row in group))
    if _SINCE in known:
        times = [row.facts.get(_SINCE) for row in group]
        facts[_SINCE] = max(map(str, times), key=datetime.fromisoformat) if all(times) else None
    return replace(first, facts=facts)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []
