"""Strict YAML of the 1.2 kind that remembers where everything stood.

PyYAML follows YAML 1.1: of two equal keys it keeps the last, `no` becomes False, 010 becomes 8, 10:00 becomes 600 and a
date becomes an object. Here only `true` and `false` are booleans, numbers are decimal, all else is text; equal keys,
names that are not text, numbers with a leading zero, anchors, tags and a second document are mistakes. Mistakes are
collected, so that one run shows all of them; only a text that is no YAML at all stops at its first fault.

Importing this module costs 20 ms; import it where a file is really read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lxgpu.config.source import LARGEST_FILE, Mark, Source, read_source
from lxgpu.errors import LxgpuError, Problem

Steps = tuple[str | int, ...]
"""The way to a value: names of mappings and numbers of list items."""
DEEPEST = 20

_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_START = frozenset("@`%")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}(?:[eE][-+]?[0-9]{1,2})?")
# What YAML 1.1 programs read as something else than text: such a name must be quoted.
_ODD_NAME = re.compile(r"(?i:yes|no|on|off|true|false|null|~|)|[-+]?[0-9][0-9_.:e+-]*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*")


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as plain values (dict, list, str, int, float, bool, None) and the places of all of them.

    `keys` and `values` give the place of the name and of the value at each way from the root. `problems` are the
    mistakes met so far; where there are any, `value` holds what could be kept.
    """

    source: Source
    value: object
    keys: Mapping[Steps, Mark]
    values: Mapping[Steps, Mark]
    problems: tuple[Problem, ...]

    def problem(self, steps: Steps, text: str, *, at_key: bool = False) -> Problem:
        """A mistake at a value (or at its name), with `file:line:column: path` and the line with a caret."""
        known = steps
        while known and known not in self.values:
            known = known[:-1]
        mark = self.keys.get(known) if at_key or known != steps else None
        return self.source.problem(mark or self.values.get(known, Mark(1, 1)), text, path=show_steps(steps))


def show_steps(steps: Steps) -> str:
    """Writes a way as people read it: `users.bob.limit`, `overrides[0].from`."""
    shown = ""
    for step in steps:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def load_yaml(path: Path) -> Document:
    """Reads a YAML file.

    Raises:
        LxgpuError: `bad_file`: it cannot be read, or is no YAML.
    """
    return parse_yaml(read_source(path))


def parse_yaml(source: Source) -> Document:
    """Reads YAML; an empty text has the value None.

    Raises:
        LxgpuError: `bad_file`: the text is no YAML.
    """
    if len(source.text) > LARGEST_FILE:
        raise source.error([Problem(f"longer than {LARGEST_FILE} characters", where=source.name)])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if match := _NOT_ALLOWED.search(source.text):
        text = f"the character U+{ord(match[0]):04X} is not allowed in YAML"
        raise source.error([source.problem(source.mark_at(match.start()), text, path="")])
    builder = _Builder(source=source)
    try:
        builder.events = yaml.parse(source.text, Loader=loader)
        value = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
        raise source.error([source.problem(place, _plain(error, source.at(place)), path="")]) from error
    return Document(
        source=source, value=value, keys=builder.keys, values=builder.values, problems=tuple(builder.problems)
    )


def _plain(error: yaml.MarkedYAMLError, found: str) -> str:
    """PyYAML's words, with advice where people trip most; `found` is the character at the place."""
    if found == "\t":
        return "a tab; YAML wants spaces here"
    if found in _NO_START:
        return f"{found} cannot start a text; put the text in quotes"
    text = str(error.problem or error.context or "this is no YAML")
    if error.context and error.problem:
        begun = f" begun in line {error.context_mark.line + 1}" if error.context_mark else ""
        return f"{text} ({error.context}{begun})"
    return text


@dataclass(slots=True)
class _Builder:
    """Turns PyYAML's events into values, noting places and mistakes; depth is bounded, so recursion is safe."""

    source: Source
    events: Iterator[object] = field(default_factory=lambda: iter(()))
    keys: dict[Steps, Mark] = field(default_factory=dict)
    values: dict[Steps, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def document(self) -> object:
        value: object = None
        seen = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                seen += 1
                if seen > 1:
                    self._note(event, (), "a second document starts here; the file must hold one")
                    break
            elif isinstance(event, yaml.NodeEvent):
                value = self._node(event, ())
        return value

    def _node(self, event: object, steps: Steps) -> object:
        mark = _mark(event)
        self.values.setdefault(steps, mark)
        if isinstance(event, yaml.AliasEvent):
            self._note(event, steps, "an alias (*name) is not accepted; write the value out")
            return None
        if getattr(event, "anchor", None):
            self._note(event, steps, "an anchor (&name) is not accepted; write the value out where it is needed")
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            self._note(event, steps, f"a tag ({tag}) is not accepted")
        if len(steps) > DEEPEST:
            raise self.source.error([self.source.problem(mark, "nested too deeply", path=show_steps(steps[:3]))])
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(steps)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(steps)
        return self._scalar(event, steps)

    def _mapping(self, steps: Steps) -> dict[str, object]:
        found: dict[str, object] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            name = self._name(event, steps)
            mark = _mark(event)
            value_event = next(self.events)
            if name is None:
                self._skip(value_event)
                continue
            inner = (*steps, name)
            if name in found:
                first = self.keys[inner].line
                self._note(event, inner, f"given twice, first in line {first}")
                self._skip(value_event)
                continue
            self.keys[inner] = mark
            found[name] = self._node(value_event, inner)
        return found

    def _name(self, event: object, steps: Steps) -> str | None:
        if not isinstance(event, yaml.ScalarEvent):
            self._skip(event)
            self._note(event, steps, "a name must be text, not a list or a mapping")
            return None
        name = str(event.value)
        if not event.style and name == "<<":
            self._note(event, steps, "a merge (<<) is not accepted; write the values out")
            return None
        if not event.style and not name:
            self._note(event, steps, "a name is missing before the colon")
            return None
        if not event.style and _ODD_NAME.fullmatch(name):
            self._note(event, (*steps, name), f'not every YAML program reads this name as text; quote it: "{name}"')
            return None
        return name

    def _sequence(self, steps: Steps) -> list[object]:
        found: list[object] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            found.append(self._node(event, (*steps, len(found))))
        return found

    def _scalar(self, event: object, steps: Steps) -> object:
        text = str(getattr(event, "value", ""))
        if getattr(event, "style", None):
            return text
        if _NULL.fullmatch(text):
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _LEADING_ZERO.fullmatch(text):
            digits = text.lstrip("+-0_") or "0"
            self._note(event, steps, f"{text} starts with a zero: write {digits} for the number, or quote it as text")
        return text

    def _skip(self, event: object) -> None:
        """Reads over a value that is not wanted, without noting places."""
        depth = 0
        while True:
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth <= 0:
                return
            event = next(self.events)

    def _note(self, event: object, steps: Steps, text: str) -> None:
        self.problems.append(self.source.problem(_mark(event), text, path=show_steps(steps)))


def _mark(event: object) -> Mark:
    mark = getattr(event, "start_mark", None)
    return Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)


def refuse(document: Document) -> LxgpuError:
    """The error that lists all mistakes of a document so far."""
    return document.source.error(document.problems)
