"""The metrics of the real page, over a living lab: on a port of their own, in Prometheus' form."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import replace

import pytest
from page_client import ask, scrape, session_of, wait_for
from prometheus_client.parser import text_string_to_metric_families


def figures(text: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and the values of labels."""
    families = text_string_to_metric_families(text.decode())
    told: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        told.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return told


def test_a_scrape_is_what_promtool_takes(page):
    """Without a session, since it is this host that asks."""
    status, kind, text = scrape(page)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=60)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_it_tells_of_the_lab(page, world):
    """Four cards, two of them alice's."""
    world.turn()
    told = figures(scrape(page)[2])
    assert told["lxgpu_gpus"] == {(): 4.0}
    assert sum("alice" in labels for labels in told["lxgpu_slot_held"]) == 2
    assert told["lxgpu_data_age_seconds"][()] < 60


def test_the_page_tells_none(page, world):
    """A proxy that adds no header looks like a program of this host, and asks for everybody: so nobody is told."""
    for cookie in ("", session_of(page, world)[0]):
        status, _, text = ask(page, "GET", "/metrics", Cookie=cookie)
        assert status == 404
        assert "lxgpu_gpus" not in text


def test_a_public_page_tells_none_either(shaken):
    """What everybody may look at is the page."""
    world, page = shaken
    world.change = lambda found: replace(found, public=True)
    world.turn()
    wait_for(lambda: ask(page, "GET", "/")[0] == 200)
    assert ask(page, "GET", "/metrics")[0] == 404


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/in", "GET", 404), ("/metrics/", "GET", 404), ("/metrics", "POST", 405)],
)
def test_its_port_has_nothing_else(page, path, method, status):
    """No page, no session, no change."""
    assert scrape(page, path, method)[0] == status


def test_a_look_at_its_lines_has_no_text(page):
    """HEAD, as watchdogs ask."""
    assert scrape(page, method="HEAD") == (200, "text/plain; version=0.0.4; charset=utf-8", b"")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:9470", ""])
def test_a_browser_here_reads_it_for_no_other_site(page, host):
    """A name that somebody points at this machine is none of its own (DNS rebinding)."""
    status, _, text = scrape(page, Host=host)
    assert status in {400, 421}
    assert b"alice" not in text


@pytest.mark.parametrize("host", ["localhost:9470", "127.0.0.1", "[::1]:9470", socket.gethostname()])
def test_it_may_be_called_by_names_of_this_host(page, host):
    """As a target is written in Prometheus' settings."""
    assert scrape(page, Host=host)[0] == 200


def test_of_a_daemon_that_is_gone_the_age_is_told(shaken):
    """And no card, since nobody knows how they are."""
    world, page = shaken
    world.close()
    world.publish(age_s=3600)
    wait_for(lambda: figures(scrape(page)[2])["lxgpu_data_age_seconds"][()] > 3000)
    told = figures(scrape(page)[2])
    assert [name for name in told if name.startswith(("lxgpu_gpu", "lxgpu_slot", "lxgpu_container"))] == []
