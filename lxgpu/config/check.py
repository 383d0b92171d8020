"""From pydantic's findings to ours: where in the file, which value, in plain words, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, get_args

from lxgpu.config.yamlload import Document, Steps
from lxgpu.errors import Problem

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "dict_type": "a mapping (name: value)",
    "model_type": "a mapping (name: value)",
    "model_attributes_type": "a mapping (name: value)",
    "list_type": "a list, as [a, b]",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a value of the document, or at its name; `lacking`: it is not there, but must be."""

    steps: Steps
    text: str
    at_key: bool = False
    lacking: bool = False


def check(document: Document, model: type[BaseModel]) -> list[Finding]:
    """Holds a document against a model; what the loader found already is in `document.problems`.

    Returns:
        What is wrong beyond that; empty when the shape is right.
    """
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "the file is no mapping (name: value)"
        return [Finding((), what)]
    return check_values(document.value, model)


def check_values(values: object, model: type[BaseModel]) -> list[Finding]:
    """Holds plain values against a model."""
    from pydantic import ValidationError  # noqa: PLC0415 -- 100 ms, and only for checking

    try:
        model.model_validate(values, by_alias=True)
    except ValidationError as error:
        return [_finding(model, item) for item in error.errors(include_url=False)]
    return []


def problems(document: Document, findings: Iterable[Finding]) -> list[Problem]:
    """All mistakes of a document: the loader's, and these findings with their places.

    Where the loader found something already, a finding would only repeat it.
    """
    told = {problem.where for problem in document.problems}
    placed = [document.problem(found.steps, found.text, at_key=found.at_key) for found in findings]
    return [*document.problems, *(problem for problem in placed if problem.where not in told)]


def _finding(model: type[BaseModel], item: ErrorDetails) -> Finding:
    steps: Steps = tuple(step for step in item["loc"] if step != "[key]")
    kind = item["type"]
    if kind == "extra_forbidden":
        known = sorted(_names(model, steps[:-1]))
        return Finding(steps, "unknown name" + did_you_mean(str(steps[-1]), known), at_key=True)
    if kind == "missing":
        return Finding(steps, "is missing and must be given", at_key=True, lacking=True)
    return Finding(steps, _words(item), at_key=item["loc"][-1] == "[key]")


def _words(item: ErrorDetails) -> str:
    kind, given, context = item["type"], item["input"], item.get("ctx", {})
    if given is None:
        return "has no value; give one, or take the line out"
    if kind in _WANTED:
        return f"{_WANTED[kind]} is wanted, not {_shown(given)}" + _advice(kind, given)
    if kind in ("greater_than_equal", "less_than_equal", "greater_than", "less_than"):
        return f"{given} is not allowed: {_bound(context)}"
    plain = {
        "value_error": context.get("error"),
        "literal_error": f"{context.get('expected')} is wanted, not {_shown(given)}".replace("'", ""),
        "too_short": "the list is empty",
        "too_long": f"the list is too long: {context.get('max_length')} are the most",
        "string_too_long": f"the text is too long: {context.get('max_length')} characters are the most",
    }
    return str(plain.get(kind, item["msg"]))


def _bound(context: dict[str, object]) -> str:
    words = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
    return " and ".join(f"{text} {context[key]}" for key, text in words.items() if key in context)


def _shown(given: object) -> str:
    match given:
        case bool():
            return "true" if given else "false"
        case int() | float():
            return f"the number {given}"
        case str():
            return f"the text {given!r}" if len(given) <= 40 else f"the text {given[:40]!r}…"  # noqa: PLR2004 -- a glance
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return type(given).__name__


def _advice(kind: str, given: object) -> str:
    if kind == "string_type" and isinstance(given, int | float) and not isinstance(given, bool):
        return f'; a unit is missing, or write "{given}" if it is text'
    if kind == "bool_type" and isinstance(given, str) and given.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"; write {'true' if given.lower() in ('yes', 'on', 'y') else 'false'}"
    return ""


def did_you_mean(name: str, known: list[str]) -> str:
    """Advice behind "unknown": the nearest known name, or all of them where they are few."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known are {', '.join(known)}" if known else ""


def _names(model: type[BaseModel], steps: Steps) -> Iterator[str]:
    """The names that the mapping at that way may have."""
    here: type[BaseModel] | None = model
    for step in steps:
        if here is None:
            return
        fields = {field.alias or name: field for name, field in here.model_fields.items()}
        here = _model_in(fields[step].annotation) if step in fields else here
    if here is not None:
        yield from (field.alias or name for name, field in here.model_fields.items())


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model inside a type: itself, or of the items of a list or mapping."""
    if hasattr(annotation, "model_fields"):
        return annotation  # type: ignore[return-value]  # a class with model_fields is a model
    return next((model for part in reversed(get_args(annotation)) if (model := _model_in(part))), None)
