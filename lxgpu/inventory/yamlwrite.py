"""Writing the inventory's YAML: what could be read otherwise is quoted, so that every YAML reader reads the same.

The few shapes of that file do not need PyYAML, which takes longer to load than the file takes to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_ODD = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ASCII_END, _BMP_END = 0xFF, 0xFFFF


def write_yaml(sections: Mapping[str, object], *, notes: Sequence[str]) -> str:
    """Writes sections one below the other.

    Args:
        sections: by name, a scalar, a mapping of scalars, or a list of mappings whose values are scalars or mappings
            of scalars. Names are simple words.
        notes: lines of comment for the top.
    """
    return "".join([*(f"# {note}\n" for note in notes), *_sections(sections)])


def _sections(sections: Mapping[str, object]) -> Iterator[str]:
    for name, content in sections.items():
        if not isinstance(content, list):
            yield f"{name}: {_value(content)}\n"
            continue
        yield f"\n{name}:\n"
        for row in content:
            start = "  - "
            for field, value in row.items():
                yield f"{start}{field}: {_value(value)}\n"
                start = "    "


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_value(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _ODD:
        return text
    if text.startswith("{") and text.isascii() and text.isprintable():
        # JSON is full of double quotes.
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_character, text)) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if code <= _ASCII_END:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= _BMP_END else f"\\U{code:08X}"
