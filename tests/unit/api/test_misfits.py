"""What helps with a request's body that does not fit."""

from __future__ import annotations

import pytest

from lxgpu.api.misfits import misfit


@pytest.mark.parametrize(
    ("field", "kind", "fix"),
    [
        ("token", "string_too_short", "open the whole address as it was sent"),
        ("token", "string_pattern_mismatch", "open the whole address as it was sent"),
        ("reason", "string_too_short", "give the reason, in a few words"),
        ("note", "string_too_short", "give the note, in a few words"),
        ("name", "string_too_short", "give the name"),
    ],
)
def test_what_helps_is_the_fields_own(field, kind, fix):
    """A link's secret is not typed, and only what is said in words is asked for in words."""
    assert misfit([{"loc": ("body", field), "type": kind}]).fix == fix
