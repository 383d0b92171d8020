"""Rewrites the parts of docs/ that are made from the code (`make docs`); a test holds that they are up to date."""  # noqa: INP001 -- a script, no package

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks import table
from lxgpu.api.documents import documents
from lxgpu.errors import CATALOGUE

OPERATIONS = Path(__file__).resolve().parents[1] / "docs" / "operations.md"
BLOCK = re.compile(r"(<!-- error codes -->\n).*?(<!-- end of error codes -->)", re.DOTALL)


def error_table() -> str:
    """The table of error codes: code, exit status, the first sentence of its explanation."""
    rows = ["| code | exit | meaning |", "|---|---|---|"]
    for code, entry in CATALOGUE.items():
        sentence = re.split(r"(?<=[.:]) ", entry.text, maxsplit=1)[0].rstrip(".:")
        rows.append(f"| `{code}` | {int(entry.status)} | {sentence.replace('|', '&#124;')} |")
    return "\n".join(rows)


def as_json(document: dict[str, object]) -> str:
    """The text of an interface's document."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def with_table(text: str) -> str:
    """The document with its table made anew."""
    return BLOCK.sub(lambda match: f"{match[1]}{error_table()}\n{match[2]}", text)


if __name__ == "__main__":
    OPERATIONS.write_text(with_table(OPERATIONS.read_text(encoding="utf-8")), encoding="utf-8")
    table.write(table.known())
    for name, document in documents().items():
        (OPERATIONS.parent / f"{name}.json").write_text(as_json(document), encoding="utf-8")
