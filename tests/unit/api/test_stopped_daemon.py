"""The daemon's process stands still (SIGSTOP): who asks learns so soon, who changes something that nobody knows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.site import make_settings
from page_client import ask
from page_world import Page

from lxgpu.config.shipped import shipped
from lxgpu.web.door import CHANGE_S, GLANCE_S, READ_S

TESTS = Path(__file__).resolve().parents[2]
GPU = shipped("templates") / "guest" / "gpu"
LIMIT_S = 50


@dataclass(frozen=True)
class Told:
    """What each heard, all asking at once."""

    status: subprocess.CompletedProcess[str]
    extend: subprocess.CompletedProcess[str]
    mine: tuple[int, str]
    change: tuple[int, str]
    link: tuple[int, str]
    key: tuple[int, str]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Inside, at the page, and with a link and an invitation."""
    folder = tmp_path_factory.mktemp("stopped")
    env = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}", "LXGPU_GUEST": str(folder / "alice"), "LC_ALL": "C"}
    daemon = subprocess.Popen(
        [sys.executable, str(TESTS / "stoppable.py"), str(folder)], env=env, stdout=subprocess.PIPE, text=True
    )
    page = None
    try:
        session = daemon.stdout.readline().strip()
        assert session
        page = Page(SimpleNamespace(site=SimpleNamespace(settings=make_settings(folder)), folder=folder))
        cookie = f"lxgpu_session={session}"
        _, _, text = ask(page, "GET", "/", Cookie=cookie)
        token = text.partition('name="token" value="')[2].partition('"')[0]
        daemon.send_signal(signal.SIGSTOP)

        def gpu(*words):
            return subprocess.run([GPU, *words], env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)

        def page_says(method, path, fields=None, **headers):
            status, _, text = ask(page, method, path, fields, limit_s=LIMIT_S, Origin=page.url, **headers)
            return status, text

        with ThreadPoolExecutor(6) as pool:
            asked = [
                pool.submit(gpu),
                pool.submit(gpu, "extend", "1h"),
                pool.submit(page_says, "GET", "/mine", Cookie=cookie),
                pool.submit(page_says, "POST", "/do/extend", {"token": token, "for": "1h"}, Cookie=cookie),
                pool.submit(page_says, "POST", "/in", {"link": "x" * 43}),
                pool.submit(page_says, "POST", "/join/key", {"token": "x" * 43, "key": "ssh-ed25519 AAAA"}),
            ]
            yield Told(*(one.result() for one in asked))
    finally:
        if page is not None:
            page.stop()
        daemon.kill()
        daemon.communicate()


def test_gpu_says_that_the_daemon_is_silent(told):
    """Exit status 8, and what still holds."""
    assert told.status.returncode == 8
    assert told.status.stderr.startswith(
        "error[unavailable] lxgpu's daemon does not answer\nwhy: no answer came within "
    )
    assert "your cards stay as they are" in told.status.stderr


def test_gpu_says_that_nobody_knows_what_became_of_a_change(told):
    """Exit status 9, and the command that tells."""
    assert told.extend.returncode == 9
    assert told.extend.stderr.splitlines() == [
        "error[outcome_unknown] it is not known whether that was done",
        "why: no answer came within 20 s",
        "why: it may have been done all the same",
        "fix: gpu shows whether it was",
    ]


def test_the_page_shows_ones_things_all_the_same(told):
    """As they were published last, and says so."""
    status, text = told.mine
    assert status == 200
    assert "The daemon does not answer" in text


def test_the_page_says_that_nobody_knows_what_became_of_a_change(told):
    """And where to look."""
    status, text = told.change
    assert status == 504
    assert "it may have been done all the same" in text


def test_nobody_is_kept_waiting_who_comes_in(told):
    """With a link or a key: the daemon is away, and neither is used up."""
    assert told.link[0] == 504
    assert "Nobody can be logged in now" in told.link[1]
    assert told.key[0] == 503
    assert "The daemon does not answer" in told.key[1]


def test_what_is_waited_for_is_bounded():
    """A page is there within 5 s, and a change answered within 20, whether or not the session is asked about first."""
    assert GLANCE_S + READ_S <= 5
    assert GLANCE_S + CHANGE_S <= 20
