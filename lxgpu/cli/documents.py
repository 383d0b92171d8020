"""Results as documents for programs: JSON, YAML with the same content, CSV."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def json_text(document: Mapping[str, object]) -> str:
    """Returns JSON, two spaces a level; non-ASCII is escaped where stdout could not carry it."""
    import json  # noqa: PLC0415 -- not for --help

    wide = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return json.dumps(document, indent=2, ensure_ascii=not wide, allow_nan=False)


def yaml_text(document: Mapping[str, object]) -> str:
    """Returns YAML with the same content as the JSON."""
    import yaml  # noqa: PLC0415 -- on request only

    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=10_000).rstrip("\n")


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Returns CSV, a line each, without the last line's end."""
    import csv  # noqa: PLC0415 -- on request only
    import io  # noqa: PLC0415

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")
