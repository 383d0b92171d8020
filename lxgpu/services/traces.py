"""What the lines of history say of bookings and of taking: which cards, for whom, by which numbers. Pure.

The kinds are `warned`, `unwarned`, `releasing`, `released`, `displaced`, `returned` about a holder, and `reserved`,
`waiting`, `started`, `finished`, `missed`, `cancelled`, `failed` about a reservation. Their details name the
`reservation`, the `gpu`, `gpus` or `slots`, the `numbers` that were compared, and the `claim`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from lxgpu.figures import short_duration
from lxgpu.model.gpu import Slot
from lxgpu.model.operation import Event

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_WORD = re.compile(r"[\w.:%-]*\w%?")
TAKING = ("displaced", "releasing", "warned")
"""Events of a holder who gives way; the later one knows more."""


def slots_of(event: Event) -> tuple[Slot, ...]:
    """The slots that an event is about."""
    for key in ("slots", "gpus"):
        texts = event.detail.get(key)
        if isinstance(texts, (list, tuple)):
            return tuple(Slot(str(text)) for text in texts)
    one = event.detail.get("slot") or event.detail.get("gpu")
    return (Slot(str(one)),) if one else ()


def reservation_of(event: Event) -> str:
    """The reservation that an event names, or nothing."""
    return str(event.detail.get("reservation") or "")


def claim_of(event: Event) -> str | None:
    """The claim to get cards back that came of it."""
    claim = event.detail.get("claim")
    return str(claim) if claim else None


def numbers_of(event: Event) -> Mapping[str, object]:
    """What was compared."""
    numbers = event.detail.get("numbers")
    return numbers if isinstance(numbers, Mapping) else {}


def taking_of(events: Iterable[Event], instance: str, slot: Slot, reservation: str = "") -> Event | None:
    """The newest event that says why a holder gives a slot away; `reservation` leaves out those for others."""
    for event in events:
        if event.kind in TAKING and event.subject == instance and slot in slots_of(event):
            if reservation and reservation_of(event) not in ("", reservation):
                continue
            return event
    return None


def rule_of(events: Iterable[Event], instance: str, slot: Slot, reservation: str = "") -> str | None:
    """The rule by which a holder gives a slot away; None where it is not told."""
    event = taking_of(events, instance, slot, reservation)
    return (event.rule or None) if event else None


def unsaid(numbers: Mapping[str, object], said: str) -> dict[str, object]:
    """The numbers that a sentence does not name already."""
    words = set(_WORD.findall(said))
    return {key: value for key, value in numbers.items() if not set(_WORD.findall(_value(key, value, None))) <= words}


def in_words(numbers: Mapping[str, object], show: Callable[[datetime], str] | None = None) -> str:
    """Numbers for people: `idle 3h, threshold 2h, priority 10`; what is not known is left out.

    `show` writes the instants among them.
    """
    known = {key: value for key, value in numbers.items() if value not in (None, "")}
    return ", ".join(f"{_name(key)} {_value(key, value, show)}" for key, value in known.items())


def _name(key: str) -> str:
    for ending in ("_percent", "_s"):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _value(key: str, value: object, show: Callable[[datetime], str] | None) -> str:
    if show is not None and isinstance(value, str) and _INSTANT.fullmatch(value):
        return show(datetime.fromisoformat(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and key.endswith("_s"):
        return short_duration(value) if value > 0 else "0s"
    if isinstance(value, (int, float)) and key.endswith("_percent"):
        return f"{value:g}%"
    if isinstance(value, (list, tuple)):
        return "/".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
