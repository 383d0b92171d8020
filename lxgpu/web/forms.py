"""What a form of the page asks the daemon for; pure. The daemon looks at every value again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from lxgpu.api.bodies import MOST_GPUS, MOST_WORDS, PLAIN
from lxgpu.units import parse_duration

_MOST_FIELDS = 40
_MOST_DIGITS = 4
Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question to the daemon: the route and its body."""

    route: str
    body: Mapping[str, object]


class FormError(Exception):
    """A form that makes no sense. What helps stands in the catalogue under `error_` and `key`."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(key)


def fields(body: bytes) -> Fields:
    """The fields of a form, without spaces around; of several with one name the last. Raises `ValueError`."""
    pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    return {name: value.strip() for name, value in pairs}


def reserve(given: Fields) -> Wanted:
    """Book cards. `when` is `soon` or `at`."""
    body: dict[str, object] = {"gpus": _number(given, "gpus"), "seconds": _seconds(given, "for")}
    if given.get("when") != "soon":
        if given.get("when") != "at" or not given.get("at"):
            raise FormError("no_start")
        body["at"] = given["at"]
        body["weekly"] = given.get("weekly") == "yes"
    if given.get("model") and given["model"] != "*":
        body["model"] = given["model"]
    if note := _words(given, "note"):
        body["note"] = note
    return Wanted("/v1/reserve", body)


def edit(given: Fields) -> Wanted:
    """Change of a reservation what differs from what the form had shown."""
    body: dict[str, object] = {"id": given.get("id", "")}
    for name in ("at", "until", "note"):
        if name in given and given[name] != given.get(f"was_{name}", ""):
            body[name] = _words(given, name)
    if given.get("gpus", "") != given.get("was_gpus", ""):
        body["gpus"] = _number(given, "gpus")
    if given.get("for"):
        body["seconds"] = _seconds(given, "for")
        body.pop("until", None)
    if len(body) == 1:
        raise FormError("no_change")
    return Wanted("/v1/edit", body)


def cancel(given: Fields) -> Wanted:
    """Give a reservation up."""
    return Wanted("/v1/cancel", {"id": given.get("id", "")})


def keep(given: Fields) -> Wanted:
    """Keep idle cards for a while."""
    return Wanted("/v1/keep", {"seconds": _seconds(given, "for"), "reason": _words(given, "reason", needed=True)})


def extend(given: Fields) -> Wanted:
    """Hold the cards for longer."""
    return Wanted("/v1/extend", {"seconds": _seconds(given, "for")})


def release(given: Fields) -> Wanted:
    """Give cards back; `busy`: those in use too."""
    gpus = given.get("gpus", "")
    return Wanted("/v1/release", {"gpus": _number(given, "gpus") if gpus else None, "busy": given.get("busy") == "yes"})


ACTIONS: Mapping[str, Callable[[Fields], Wanted]] = {
    "reserve": reserve,
    "edit": edit,
    "cancel": cancel,
    "keep": keep,
    "extend": extend,
    "release": release,
}


def _number(given: Fields, name: str) -> int:
    text = given.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
    if not 1 <= number <= MOST_GPUS:
        raise FormError("no_number")
    return number


def _seconds(given: Fields, name: str) -> int:
    seconds = parse_duration(given.get(name, ""))
    if seconds < 1:
        raise FormError("no_length")
    return seconds


def _words(given: Fields, name: str, *, needed: bool = False) -> str:
    """A field that somebody wrote into, as the daemon takes it."""
    text = given.get(name, "")
    if needed and not text:
        raise FormError("no_reason")
    if len(text) > MOST_WORDS:
        raise FormError("too_long")
    if not re.fullmatch(PLAIN, text):
        raise FormError("not_plain")
    return text
