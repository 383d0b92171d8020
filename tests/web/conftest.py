"""A browser, and labs with their page: the real process and the real door, over fakes of LXD and the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_client import ask, scrape, wait_for
from page_world import Page, PageWorld, small_lab
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import Page as Tab

CHROMIUM = "/usr/bin/chromium"
WAIT_MS = 15_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; of a module, since its loop would be in the way of other modules' own."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[PageWorld]:
    """Four cards; alice works on two, bob and carol have none."""
    made = small_lab(tmp_path_factory.mktemp("lab"))
    made.open()
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(world) -> Iterator[Page]:
    """Its page."""
    started = Page(world)
    yield started
    started.stop()


@pytest.fixture
def shaken(world, page) -> Iterator[tuple[PageWorld, Page]]:
    """The same, to be left without its daemon or with odd things published; afterwards all is as before."""
    yield world, page
    world.close()
    world.change = lambda found: found
    world.open()
    wait_for(lambda: b"lxgpu_gpus 4.0" in scrape(page)[2] and ask(page, "GET", "/")[0] == 401)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[PageWorld, Page]]:
    """A lab of one's own, to be broken."""
    made = small_lab(tmp_path)
    made.open()
    started = Page(made)
    yield made, started
    started.stop()
    made.close()


Visit = Callable[..., Tab]


@pytest.fixture
def visit(browser, world, page) -> Iterator[Visit]:
    """Open a tab of a browser of its own, logged in as the container of that name ("": who only looks)."""
    with ExitStack() as opened:

        def made(name: str | None = "alice", path: str = "/", *, of=None, **how: object) -> Tab:
            lab, served = of or (world, page)
            context: BrowserContext = browser.new_context(base_url=served.url, **how)
            opened.callback(context.close)
            context.set_default_timeout(WAIT_MS)
            tab = context.new_page()
            tab.faults = []
            tab.on("pageerror", lambda error: tab.faults.append(str(error)))
            tab.on("console", lambda said: "Content Security" in said.text and tab.faults.append(said.text))
            if name is not None:
                tab.goto(lab.way_in(name))
                tab.wait_for_url(f"{served.url}/")
            if path != "/" or name is None:
                tab.goto(path)
            return tab

        yield made
