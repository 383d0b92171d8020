"""The parts of the page, made from what was published."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import make_site

from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.services.publish import published
from lxgpu.services.statusfile import DaemonView
from lxgpu.web.parts import Parts, Taste
from lxgpu.web.sessions import ANYBODY, Reader
from lxgpu.web.statics import Statics
from lxgpu.web.watching import Seen
from lxgpu.web.words import catalogue


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", ""])
def test_a_zone_that_this_machine_does_not_know_is_no_fault(tmp_path, zone):
    """The times are UTC's then, and the page is there."""
    site = make_site(tmp_path, gpus=1)
    folder = shipped("templates") / "web"
    parts = Parts(JinjaTexts([shipped("templates")]), catalogue(folder / "words.yaml"), Statics(folder / "static"))
    found = replace(published(site, DaemonView(running=True)), timezone=zone)
    shown = parts.page("login", Seen(1, found), None, Taste("en"), here="/", foreign=False, public=False)
    assert "</html>" in shown
    assert parts.calendar(Seen(1, found), Reader(ANYBODY), Taste("en"), view="week", day=0)
