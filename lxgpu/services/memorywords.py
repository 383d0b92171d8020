"""What `why` says of the memory guard: who was over their share, what they were told, what was ended; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from lxgpu.figures import short_size
from lxgpu.model.operation import Event
from lxgpu.policy.guard import ENDED, OVER
from lxgpu.services.explain import ReasonView, Show, fact

NEWS = timedelta(hours=1)
"""What is older than this explains nothing of the present."""


def about_memory(events: Iterable[Event], slots: Collection[str], *, show: Show, now: datetime) -> Iterator[ReasonView]:
    """The last warning and the last end of programs on each of the parts, as long as they are news.

    Args:
        events: newest first.
        slots: the parts by name, as `Slot.gpu` has it.
        show: writes an instant.
        now: the time.
    """
    said = set()
    for event in events:
        slot = str(event.detail.get("gpu"))
        if event.kind in {OVER, ENDED} and slot in slots and (event.kind, slot) not in said and now - event.at <= NEWS:
            said.add((event.kind, slot))
            yield fact(slot, event.kind, _in_words(event, show), event)


def _in_words(event: Event, show: Show) -> str:
    detail, who = event.detail, event.subject
    held = f"{_size(detail.get('used_bytes'))} of its memory, the share is {_size(detail.get('share_bytes'))}"
    if event.kind == ENDED:
        listed = detail.get("commands")
        names = ", ".join(dict.fromkeys(map(str, listed))) if isinstance(listed, (list, tuple)) else ""
        return f"{who} held {held}: {names or 'a program'} of {who} got {detail.get('signal')}"
    due = detail.get("due_at")
    then = f"if that is still so at {show(datetime.fromisoformat(str(due)))}, its newest programs are ended"
    return f"{who} held {held}" + (f"; {then}" if due else "; the policy lets it be")


def _size(value: object) -> str:
    return short_size(value) if isinstance(value, (int, float)) else "much"
