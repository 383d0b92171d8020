"""By which names the page may be called, and from where it may be told to change something."""

from __future__ import annotations

import pytest

from lxgpu.web.guard import Names


@pytest.mark.parametrize(
    ("origin", "ours"),
    [
        ("https://gpu.lab.example", True),
        ("http://127.0.0.1:9400", True),
        ("https://elsewhere.example", False),
        ("null", False),
        ("http://[", False),
        ("https://gpu.lab.example@elsewhere.example", False),
    ],
)
def test_an_origin_is_the_page_itself_or_not(origin, ours):
    """As it is known outside, or as it was called; what is no address is nobody's."""
    assert Names("https://gpu.lab.example").ours(origin, "127.0.0.1:9400") is ours
