"""The page of `lxgpu report --html` in a browser: nothing loaded, nothing broken, readable for all, on any screen."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe
from seeded_month import seeded_month

from lxgpu.config.shipped import shipped
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.services.usagebook import book
from lxgpu.services.usagepage import page_of


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The page of a month made by chance."""
    folder = tmp_path_factory.mktemp("report")
    month, zone = seeded_month(folder, seed=11, cards=8), ZoneInfo("Europe/Berlin")
    made = book(month.ground(), since=month.since - timedelta(days=1), now=month.now, zone=zone)
    path = folder / "use.html"
    page = page_of(made, host="gpu1", zone=zone)
    path.write_text(JinjaTexts([shipped("templates")]).render("report/page.html.j2", page=page, version="1"))
    return path


def test_nothing_else_is_loaded(browser, file):
    """The file is all there is; without scripts, as whoever gets it by mail may have it."""
    context = browser.new_context(java_script_enabled=False)
    tab, asked = context.new_page(), []
    tab.on("request", lambda one: asked.append(one.url))
    tab.goto(file.as_uri())
    drawings, sums = tab.locator("svg[role=img]").count(), tab.locator("tfoot").count()
    context.close()
    assert asked == [file.as_uri()]
    assert (drawings, sums) == (9, 6)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, file, scheme):
    """Contrast, names, order of headings, tables: in both schemes."""
    context = browser.new_context(color_scheme=scheme)
    tab = context.new_page()
    tab.goto(file.as_uri())
    found = Axe().run(tab).response["violations"]
    context.close()
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found] == []


@pytest.mark.parametrize("wide", [380, 800, 1600])
def test_it_fits_every_screen(browser, file, wide):
    """Wide tables move on their own; the page does not."""
    context = browser.new_context(viewport={"width": wide, "height": 800})
    tab = context.new_page()
    tab.goto(file.as_uri())
    scroll, shown = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    context.close()
    assert scroll <= shown


def test_on_paper_it_is_black_on_white(browser, file):
    """Whoever prints from a dark screen wastes no ink; the colours of the bars stay."""
    context = browser.new_context(color_scheme="dark")
    dark = context.new_page()
    dark.goto(file.as_uri())
    look = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    screen = dark.evaluate(look)
    dark.emulate_media(media="print")
    paper = dark.evaluate(look)
    pdf = dark.pdf(print_background=True)
    context.close()
    assert screen == ["rgb(22, 22, 22)", "rgb(236, 236, 236)"]
    assert paper == ["rgb(255, 255, 255)", "rgb(26, 26, 26)"]
    assert pdf.startswith(b"%PDF")
