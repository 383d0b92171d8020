"""The strict loader: what it takes, and where everything stood."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.config.source import Mark, Source, decode
from lxgpu.config.yamlload import DEEPEST, Document, load_yaml, parse_yaml, show_steps
from lxgpu.errors import LxgpuError

NAMES = st.text(alphabet="abcdefghij_", min_size=1, max_size=6).filter(lambda name: name not in {"n", "y"})
TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"]), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)


def _outcome(call):
    """What a call gives, or the error for people that it ends in."""
    try:
        return call(), None
    except LxgpuError as error:
        return None, error


def _parse(text: str) -> Document:
    return parse_yaml(Source(name="f.yaml", text=text))


@given(VALUES)
def test_json_is_read_as_it_was_meant(value):
    """JSON is YAML 1.2: every value comes back as it was, and without a complaint."""
    document = _parse(json.dumps(value, ensure_ascii=False).replace("\x7f", " "))
    assert document.value == json.loads(json.dumps(value).replace("\\u007f", " "))
    assert document.problems == ()


@given(VALUES)
def test_every_value_has_its_place(value):
    """The place of a value is where its text begins."""
    text = json.dumps(value, ensure_ascii=False, indent=1).replace("\x7f", " ")
    document = _parse(text)
    lines = Source(name="f", text=text).lines
    for steps, mark in document.values.items():
        here: object = document.value
        for step in steps:
            here = here[step]  # type: ignore[index]  # steps come from the document
        begins = lines[mark.line - 1][mark.column - 1 :]
        assert begins.startswith({dict: "{", list: "[", str: '"', bool: str(here).lower()}.get(type(here), ""))


@given(st.text(alphabet="ab: -[]{},\"'#&*!|>%@`?\n\t\\~0.\ufeff", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_document_or_an_error_for_people(text):
    """No text makes anything but a document, or a `bad_file` with a place."""
    document, error = _outcome(lambda: _parse(text))
    problems = document.problems if document else error.problems
    assert document or (error.code == "bad_file" and problems)
    assert all(re.match(r"f\.yaml:[0-9]+:[0-9]+", problem.where) for problem in problems)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_text_or_an_error_for_people(raw):
    """What is no UTF-8 is told with the place of the first bad byte."""
    source, error = _outcome(lambda: decode(raw, name="f.yaml"))
    if source:
        assert source.text.encode() == raw.removeprefix(b"\xef\xbb\xbf")
    else:
        assert error.code == "bad_file"
        assert "is no UTF-8" in error.problems[0].text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("~", None),
        ("null", None),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("1.5", 1.5),
        ("1e3", "1e3"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("10:00", "10:00"),
        ("2027-05-01", "2027-05-01"),
        ("2027-05-01 09:00:00", "2027-05-01 09:00:00"),
        (".inf", ".inf"),
        ("9" * 30, "9" * 30),
        ('"12"', "12"),
        ("'true'", "true"),
    ],
)
def test_scalars_are_those_of_yaml_1_2_and_plainer(text, value):
    """B65, B67: only true and false are booleans, only decimals are numbers, all else is text."""
    found = _parse(f"a: {text}\n").value
    assert found == {"a": value}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(value)


def test_windows_and_old_mac_lines_are_lines():
    """CRLF and CR end a line as LF does, in places as well as in excerpts."""
    for end in ("\r\n", "\r", "\n"):
        document = _parse(f"a: 1{end}b: 2{end}a: 3{end}")
        assert document.value == {"a": 1, "b": 2}
        assert document.problems[0].where == "f.yaml:3:1: a"
        assert document.problems[0].excerpt == "a: 3\n^"


def test_the_caret_minds_wide_characters_and_long_lines():
    """Below a wide character stand two columns; of a long line the part around the place is shown."""
    assert Source(name="f", text="实验: x").excerpt(Mark(1, 5)) == "实验: x\n      ^"
    shown, caret = Source(name="f", text="a" * 500 + "X" + "b" * 500).excerpt(Mark(1, 501)).split("\n")
    assert len(shown) < 200
    assert shown[caret.index("^")] == "X"


def test_a_terminal_is_not_steered_by_a_file():
    """Control characters of the file do not reach the excerpt."""
    assert "\x1b" not in Source(name="f", text="a: \x1b[31m").excerpt(Mark(1, 4))


def test_nesting_is_bounded():
    """As deep as the bound is fine, one more is refused, a thousand do no harm."""
    _parse("[" * DEEPEST + "]" * DEEPEST)
    for depth in (DEEPEST + 2, 1000):
        with pytest.raises(LxgpuError, match="has a mistake"):
            _parse("[" * depth)


def test_ways_are_written_as_people_read_them():
    """Names are joined by dots, items have their number in brackets."""
    assert show_steps(("overrides", 0, "groups", "vision")) == "overrides[0].groups.vision"
    assert show_steps(()) == ""


def test_a_file_that_is_not_there_or_a_folder_is_an_error_for_people(tmp_path):
    """The reason is the system's own words."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(LxgpuError, match="cannot be read") as raised:
            load_yaml(path)
        assert raised.value.why
