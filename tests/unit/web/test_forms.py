"""What forms ask the daemon for."""

from __future__ import annotations

import pytest

from lxgpu.api import bodies
from lxgpu.config.shipped import shipped
from lxgpu.errors import LxgpuError
from lxgpu.web.forms import ACTIONS, FormError, Wanted, fields
from lxgpu.web.words import catalogue

TEXTS = catalogue(shipped("templates") / "web" / "words.yaml")

GOOD = [
    ("reserve", {"gpus": "2", "when": "soon", "for": "4h"}, {"gpus": 2, "seconds": 14400}),
    (
        "reserve",
        {"gpus": "1", "when": "at", "at": "2027-03-02T09:00", "for": "90m", "weekly": "yes", "model": "*", "note": "x"},
        {"gpus": 1, "seconds": 5400, "at": "2027-03-02T09:00", "weekly": True, "note": "x"},
    ),
    ("reserve", {"gpus": "1", "when": "soon", "at": "2027-03-02T09:00", "for": "1d", "model": "NVIDIA A100"},
     {"gpus": 1, "seconds": 86400, "model": "NVIDIA A100"}),
    ("edit", {"id": "r1", "gpus": "2", "was_gpus": "1", "note": "x", "was_note": "x"}, {"id": "r1", "gpus": 2}),
    ("edit", {"id": "r1", "until": "2027-03-02T09:00", "was_until": "2027-03-02T10:00"},
     {"id": "r1", "until": "2027-03-02T09:00"}),
    ("edit", {"id": "r1", "note": "", "was_note": "old"}, {"id": "r1", "note": ""}),
    ("cancel", {"id": "r1"}, {"id": "r1"}),
    ("keep", {"for": "2h", "reason": "a long think"}, {"seconds": 7200, "reason": "a long think"}),
    ("extend", {"for": "1d"}, {"seconds": 86400}),
    ("release", {"gpus": "", "busy": "yes"}, {"gpus": None, "busy": True}),
    ("release", {"gpus": "1"}, {"gpus": 1, "busy": False}),
]  # fmt: skip
BAD = [
    ("reserve", {"gpus": "two", "for": "4h"}),
    ("reserve", {"gpus": "99999", "for": "4h"}),
    ("reserve", {"gpus": "1", "for": "soon"}),
    ("reserve", {"gpus": "1", "for": "4h", "when": "at"}),
    ("edit", {"id": "r1", "gpus": "1", "was_gpus": "1"}),
    ("keep", {"reason": "x"}),
    ("release", {"gpus": "-1"}),
    ("reserve", {"gpus": "1", "for": "4h", "when": "xx"}),
    ("reserve", {"gpus": "1", "for": "4h"}),
    ("reserve", {"gpus": "0", "for": "4h", "when": "soon"}),
    ("reserve", {"gpus": "1025", "for": "4h", "when": "soon"}),
    ("reserve", {"gpus": "1", "for": "0s", "when": "soon"}),
    ("reserve", {"gpus": "1", "for": "4" * 5000, "when": "soon"}),
    ("reserve", {"gpus": "1", "for": "99999999w", "when": "soon"}),
    ("reserve", {"gpus": "1", "for": "4h", "when": "soon", "note": "x" * 201}),
    ("reserve", {"gpus": "1", "for": "4h", "when": "soon", "note": "a\nb"}),
    ("edit", {"id": "r1", "note": "x" * 201, "was_note": ""}),
    ("keep", {"for": "2h", "reason": ""}),
    ("keep", {"for": "2h", "reason": "x" * 201}),
    ("keep", {"for": "2h", "reason": "a\x1b[2Jb"}),
    ("extend", {"for": "0m"}),
]
BODIES = {
    "reserve": bodies.Reserve,
    "edit": bodies.Edit,
    "cancel": bodies.Cancel,
    "keep": bodies.Keep,
    "extend": bodies.Extend,
    "release": bodies.Release,
}


@pytest.mark.parametrize(("name", "given", "body"), GOOD)
def test_a_form_becomes_a_body_that_the_daemon_takes(name, given, body):
    """As its own models have it."""
    assert ACTIONS[name](given) == Wanted(f"/v1/{name}", body)
    BODIES[name].model_validate(body)


@pytest.mark.parametrize(("name", "given"), BAD, ids=lambda value: str(value)[:60])
def test_what_makes_no_sense_is_said_before_the_daemon_is_asked(name, given):
    """With what helps."""
    with pytest.raises((LxgpuError, FormError)) as caught:
        ACTIONS[name](given)
    assert f"error_{caught.value.key}" in TEXTS if caught.type is FormError else caught.value.fix
    assert len(str(caught.value)) < 120, "what was typed is not repeated whole"


@pytest.mark.parametrize("text", ["x" * 200, "王" * 200, "全角\u3000空格", "a\u00a0b"])
def test_what_the_daemon_takes_goes_through(text):
    """Its own bounds, and no others."""
    bodies.Keep.model_validate(ACTIONS["keep"]({"for": "2h", "reason": text}).body)
    bodies.Reserve.model_validate(ACTIONS["reserve"]({"gpus": "1", "for": "2h", "when": "soon", "note": text}).body)


def test_fields_are_read_as_browsers_send_them():
    """Spaces around are gone; the last of two counts; what is no form is an error."""
    assert fields(b"note=+a+b+&n=1&n=2&%C3%A9=%E7%8E%8B") == {"note": "a b", "n": "2", "é": "王"}
    with pytest.raises(ValueError, match="codec"):
        fields(b"\xff\xfe")
