"""How it looks, to everybody: axe, both colours, both languages, a telephone, the keyboard alone, paper."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_world import Page, lab_in_use
from playwright.sync_api import expect

PAGES = ("/", "/calendar", "/calendar?view=week", "/mine")
NARROW = {"width": 380, "height": 800}
STICKS_OUT = """
[...document.querySelectorAll('body *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(one).position !== 'absolute')
  .map((one) => one.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Eight cards with something of everything, one of alice's about to be taken, and their page."""
    world = lab_in_use(tmp_path_factory.mktemp("full"))
    world.urgent()
    world.open()
    page = Page(world)
    yield world, page
    page.stop()
    world.close()


def open_all(tab):
    """Everything that is folded is open."""
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")


def violations(tab):
    """What axe finds: the rule, and the elements."""
    found = Axe().run(tab).response["violations"]
    return [(one["id"], *(node["html"][:160] for node in one["nodes"])) for one in found]


@pytest.mark.parametrize("look", ["light", "dark"])
def test_axe_finds_nothing(visit, full, look):
    """Contrast, names, roles, order of headings: on every page, also on those without a login."""
    tab, found = visit("alice", of=full, color_scheme=look), []
    for path in (*PAGES, "/join", "/in", "/nowhere"):
        tab.goto(path)
        open_all(tab)
        found += [(path, *one) for one in violations(tab)]
    tab.context.clear_cookies()
    tab.goto("/")
    assert found + violations(tab) == []
    assert tab.faults == []


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_a_telephone_scrolls_up_and_down_only(visit, full, language):
    """At 380 px nothing sticks out, folded or not; warnings too."""
    tab = visit("alice", of=full, viewport=NARROW, locale=language, is_mobile=True, has_touch=True)
    for path in (*PAGES, "/calendar?day=3", "/join", "/in"):
        tab.goto(path)
        open_all(tab)
        assert tab.evaluate(STICKS_OUT) == [], path
        assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], path


def test_everything_can_be_done_by_the_keyboard(visit, full):
    """From the first Tab to a booking that is given up again, and through the calendar by arrows."""
    tab = visit("carol", "/mine", of=full)
    keys = tab.keyboard
    keys.press("Tab")
    expect(tab.get_by_role("link", name="To the content")).to_be_focused()
    keys.press("Enter")
    keys.press("Tab")
    reach(tab, "input[name=gpus]")
    keys.type("1")
    reach(tab, "input[name=for]")
    keys.press("Control+a")
    keys.type("3h")
    reach(tab, "input[name=note]")
    keys.type("by keys")
    keys.press("Enter")
    expect(tab.locator("#said")).to_contain_text("Booked.")
    row = tab.locator("#mine .row", has_text="by keys")
    expect(row).to_be_visible()
    expect(tab.locator("#said")).to_be_focused()
    fold = row.locator("details", has_text="Cancel").locator("summary")
    reach(tab, f"#{fold.locator('..').get_attribute('id')} > summary")
    keys.press("Enter")
    reach(tab, ".danger")
    keys.press("Enter")
    expect(tab.locator("#said")).to_contain_text("Cancelled.")

    tab.goto("/calendar?view=week")
    reach(tab, ".bar > *")
    first = tab.evaluate("document.activeElement.id")
    keys.press("ArrowDown")
    assert tab.evaluate("document.activeElement.id") != first
    expect(tab.locator("#bar-told")).to_have_text(tab.locator(":focus").get_attribute("aria-label"))
    keys.press("ArrowUp")
    assert tab.evaluate("document.activeElement.id") == first
    assert tab.faults == []


def reach(tab, selector):
    """Press Tab until it is there."""
    for _ in range(120):
        tab.keyboard.press("Tab")
        if tab.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab never came to {selector}")


def test_it_speaks_chinese(visit, full):
    """By the browser's wish, or by a press; the choice stays."""
    tab = visit("alice", of=full, locale="zh-CN")
    expect(tab.locator("h1")).to_contain_text("块 GPU 中有")
    assert tab.locator("html").get_attribute("lang") == "zh-CN"
    for path in PAGES:
        tab.goto(path)
        text = tab.locator("body").inner_text()
        left = re.findall(r"\b(?:until|free|booked|Book|Calendar|Mine|times in|lent|Live)\b", text)
        assert left == [], path
    tab.get_by_role("link", name="English").click()
    expect(tab.get_by_role("link", name="Calendar")).to_be_visible()
    tab.goto("/calendar")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Calendar")


def test_the_colours_that_were_chosen_stay(visit, full):
    """Dark at a press, whatever the system has."""
    tab = visit("alice", of=full, color_scheme="light")
    pale = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.get_by_role("link", name="Dark colours").click()
    expect(tab.locator("html")).to_have_attribute("data-look", "dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != pale
    tab.goto("/calendar")
    expect(tab.locator("html")).to_have_attribute("data-look", "dark")


def test_the_calendar_is_fit_for_paper(visit, full):
    """Black on white, without what can only be pressed."""
    tab = visit("alice", "/calendar?view=week", of=full, color_scheme="dark")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(tab.locator(".bar").first).to_be_visible()
    for gone in (".tools", ".top nav", ".days", "#to-book"):
        expect(tab.locator(gone)).to_be_hidden()


def test_nothing_that_is_over_is_in_the_calendar(visit, full):
    """Every bar ends after now, and the axis begins no more than an hour ago."""
    tab = visit("alice", "/calendar", of=full)
    start, now = int(tab.locator(".calendar").get_attribute("data-start")), full[0].site.clock.now().timestamp()
    assert 0 <= now - start < 3700
    left = tab.evaluate("[...document.querySelectorAll('.bar')].map((one) => one.getBoundingClientRect().right)")
    line = tab.evaluate("document.querySelector('.now').getBoundingClientRect().left")
    assert min(left) > line
