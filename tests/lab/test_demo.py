"""`make demo`, as somebody on a fresh machine meets it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

DEMO = Path(__file__).resolve().parents[2] / "packaging" / "demo.sh"
LAB = f"demo{os.getpid()}"

pytestmark = pytest.mark.lab


def _demo(*words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LXGPU_", "LXD_"))}
    return subprocess.run(
        [str(DEMO), *words],
        env=env | {"LXGPU_DEMO_LAB": LAB},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def first() -> Iterator[subprocess.CompletedProcess[str]]:
    """The first run; the lab is taken away at the end, whatever happened."""
    try:
        yield _demo()
    finally:
        assert _demo("down").returncode == 0


def test_the_demo_shows_alice_her_card_and_her_limit(first):
    """It ends with `demo: ok`, after her id, exactly one card of hers, her memory limit and the ssh line."""
    said = first.stdout + first.stderr
    assert first.returncode == 0, said
    assert first.stdout.splitlines()[-1] == "demo: ok"
    assert "(alice)" in said
    assert len([line for line in first.stdout.splitlines() if line.startswith("crw") and "/dev/nvidia" in line]) == 1
    assert "MemTotal:        2097152 kB" in said
    assert "ssh -p " in said


def test_the_demo_leaves_a_page_that_lets_alice_in(first):
    """The link that it prints opens the real page over the real lab: her card, under her name; once."""
    url, secret = re.search(r"^(http://127\.0\.0\.1:[0-9]+)/in#(\S+)$", first.stdout, re.MULTILINE).groups()
    form = urlencode({"link": secret}).encode()

    def come_in():
        browser = build_opener(HTTPCookieProcessor())
        asked = Request(f"{url}/in", form, {"Origin": url})  # noqa: S310 -- the address begins with http, as read above
        with browser.open(asked, timeout=20) as answer:
            return answer.read().decode()

    text = come_in()
    assert "of 4 GPUs" in text.replace("</b>", "")
    assert '<b class="me">alice</b>' in text
    with pytest.raises(HTTPError, match="403"):
        come_in()


def test_a_second_run_works_too(first):
    """Alice is there already, and that is no error."""
    assert first.returncode == 0
    again = _demo()
    assert again.stdout.splitlines()[-1] == "demo: ok", again.stdout + again.stderr
