"""/metrics of the real page, over a living lab: for this host, in Prometheus' form, with what the daemon saw."""

from __future__ import annotations

import http.client
import subprocess
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families


def scrape(page, **headers: str) -> tuple[int, str, bytes]:
    """One scrape: status, type, text."""
    link = http.client.HTTPConnection(urlsplit(page.url).netloc, timeout=15)
    link.request("GET", "/metrics", headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    told = answer.status, answer.headers["content-type"], answer.read()
    link.close()
    return told


def figures(text: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and the values of labels."""
    families = text_string_to_metric_families(text.decode())
    told: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        told.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return told


def eventually(true) -> bool:
    """Whether it becomes true; the page looks twice a second."""
    ends = time.monotonic() + 15
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.1)
    return False


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


@pytest.mark.parametrize("header", ["X_Forwarded_For", "Forwarded", "X_Real_IP", "Via"])
def test_who_comes_through_a_proxy_is_told_nothing(page, header):
    """The names of people's containers are in it, and a proxy on this host asks for the whole world."""
    status, _, text = scrape(page, **{header: "203.0.113.7"})
    assert status == 403
    assert b"alice" not in text


def test_of_a_daemon_that_is_gone_the_age_is_told(fresh):
    """And no card, since nobody knows how they are."""
    world, page = fresh
    world.close()
    world.publish(age_s=3600)
    assert eventually(lambda: figures(scrape(page)[2])["lxgpu_data_age_seconds"][()] > 3000)
    told = figures(scrape(page)[2])
    assert [name for name in told if name.startswith(("lxgpu_gpu", "lxgpu_slot", "lxgpu_container"))] == []


def test_a_public_page_tells_everybody(fresh):
    """As the policy says."""
    world, page = fresh
    world.change = lambda found: replace(found, public=True)
    world.turn()
    assert eventually(lambda: scrape(page, X_Forwarded_For="203.0.113.7")[0] == 200)
