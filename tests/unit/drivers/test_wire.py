"""The port of the host probe on the wire: whatever it takes and answers arrives as it was."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.drivers.wire import error_from, failure, line_of, methods, parsed, read, written
from lxgpu.errors import LxgpuError
from lxgpu.ports import Holders, Process

KINDS = sorted({(name, part) for name, kinds in methods().items() for part in kinds})


def strategy(kind):
    """Values of a type of the port; what may be any collection is a tuple, as it arrives."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {Iterable, Collection}:
        return st.lists(strategy(inner[0])).map(tuple)
    if inner and type(None) in inner:
        return st.none() | strategy(next(one for one in inner if one is not type(None)))
    return st.from_type(kind)


st.register_type_strategy(float, st.floats(allow_nan=False))


@pytest.mark.parametrize(("name", "part"), KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_value_arrives_as_it_was(name, part, data):
    """Each parameter and each answer of each method, through one line of JSON."""
    kind = methods()[name][part]
    value = data.draw(strategy(kind))
    line = line_of({"is": written(value)})
    assert line.count(b"\n") == 1
    assert read(kind, parsed(line)["is"]) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, "1"),
        (bool, 1),
        (str, None),
        (frozenset[int], "12"),
        (tuple[int, int], [1]),
        (tuple[int, int], [1, 2, 3]),
        (bytes | None, "no base64"),
        (Process, {"pid": 1}),
        (Process, [1, 2]),
        (Holders, {"processes": [{"pid": "1", "start_time": 2}]}),
    ],
)
def test_what_does_not_fit_is_refused(kind, value):
    """Nothing of another form passes for an answer."""
    with pytest.raises(ValueError, match=r"\w"):
        read(kind, value)


def test_a_field_that_only_one_side_knows_does_no_harm():
    """An older or newer lxgpu on the other side, within one version of the protocol."""
    assert read(Process, {"pid": 1, "start_time": 2, "mood": "good"}) == Process(1, 2)


def test_errors_arrive_with_reason_and_remedy():
    """As they were raised; of a code that is not known here, something is not to be had."""
    sent = LxgpuError("not_free", "no", why=("one", "two"), fix="do this")
    found = error_from(failure(sent))
    assert (found.code, found.brief, found.why, found.fix) == ("not_free", "no", ("one", "two"), "do this")
    assert error_from({"code": "of_tomorrow", "brief": "no"}).code == "unavailable"


@pytest.mark.parametrize("line", [b"", b"Welcome!", b"[1]", b"{", b"\xff"])
def test_other_lines_are_none_of_ours(line):
    """What a login prints, say."""
    assert parsed(line) is None
