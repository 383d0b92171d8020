"""What is wrong with a request's body, in lxgpu's own words and with what helps; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.figures import quoted

_MOST_TOLD = 10
_LOOK = "look at what was typed"
_NAMES = {
    "gpus": "the number of GPUs",
    "seconds": "the length in seconds",
    "until": "the end",
    "at": "the start",
    "class": "the class",
    "token": "the secret of the link",
}
"""Fields that people know by another name; all others are called as they are."""

_REMEDIES = {"token": "open the whole address as it was sent"}
"""What helps whatever is wrong with a field that nobody types."""

_IN_WORDS = ("reason", "note")
"""Fields that are said in words."""


_WORDS = {
    "missing": ("{name} is missing", "give {name}"),
    "string_too_short": ("{name} is empty", "give {name}{words}"),
    "string_too_long": ("{name} has more than {max_length} characters", "make it shorter"),
    "string_pattern_mismatch": (
        "{name} has characters that it cannot have",
        "write it in one line, of plain characters",
    ),
    "greater_than_equal": ("{name} is less than {ge}", "give {ge} or more"),
    "less_than_equal": ("{name} is more than {le}", "give {le} or less"),
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float"), ("{name} is no whole number", "give a whole number")
    ),
    "string_type": ("{name} is no text", "give a text"),
    "bool_type": ("{name} is neither true nor false", "give true or false"),
    "extra_forbidden": ("there is no field {field}", "leave it out"),
    "value_error": ("{error}", _LOOK),
    **dict.fromkeys(("json_invalid", "model_attributes_type", "dict_type"), ("the request is no JSON object", _LOOK)),
}
"""By pydantic's name of a finding: what is wrong, and what helps; `name` and `field` as above, its bounds by theirs."""


def misfit(found: Iterable[Mapping[str, Any]]) -> LxgpuError:
    """The error for what the models of `api.bodies` found, as pydantic lists it."""
    told = list(dict.fromkeys(map(_said, found)))[:_MOST_TOLD]
    (what, fix), *others = told or [("the request does not fit", _LOOK)]
    return LxgpuError("usage", what, why=[text for text, _ in others], fix=fix)


def _said(one: Mapping[str, Any]) -> tuple[str, str]:
    field = ".".join(str(part) for part in one["loc"][1:])
    name = _NAMES.get(field, f"the {field}" if field else "the request")
    what, fix = _WORDS.get(one["type"], ("{name} does not fit", _LOOK))
    words = ", in a few words" if field in _IN_WORDS else ""
    facts = {**(one.get("ctx") or {}), "name": name, "field": quoted(field), "words": words}
    return what.format(**facts), _REMEDIES.get(field, fix).format(**facts)
