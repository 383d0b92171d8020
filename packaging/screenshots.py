"""Takes the pictures of the page in docs/ (`make screenshots`): a made-up lab, the real page, Debian's Chromium."""  # noqa: INP001 -- a script, no package

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from page_world import Page, lab_in_use  # noqa: E402 -- found by the line above

WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 380, "height": 780}
SHOTS = (
    ("page-light.png", "/", WIDE, "light", "en"),
    ("page-dark.png", "/", WIDE, "dark", "en"),
    ("page-calendar.png", "/calendar?view=week", WIDE, "light", "en"),
    ("page-mine.png", "/mine", WIDE, "light", "en"),
    ("page-narrow.png", "/", NARROW, "light", "en"),
    ("page-narrow-calendar.png", "/calendar", NARROW, "dark", "en"),
    ("page-chinese.png", "/calendar", WIDE, "light", "zh"),
    ("page-warning.png", "/", NARROW, "light", "en"),
)
"""File, address, window, colours, language; for the last one a card of alice's is about to be taken."""
COLOURS = 224


def take(folder: Path) -> None:
    """All pictures into a folder."""
    with TemporaryDirectory() as place, sync_playwright() as playwright:
        world = lab_in_use(Path(place))
        world.open()
        page = Page(world)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            for name, path, window, colours, language in SHOTS:
                if name == SHOTS[-1][0]:
                    world.urgent()
                context = browser.new_context(
                    base_url=page.url, viewport=window, color_scheme=colours, locale=language, reduced_motion="reduce"
                )
                tab = context.new_page()
                tab.goto(world.way_in("alice"))
                tab.wait_for_url(f"{page.url}/")
                tab.goto(path)
                tab.locator("#age .age").wait_for()
                tab.screenshot(path=folder / name)
                with Image.open(folder / name) as shot:
                    shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(folder / name, optimize=True)
                context.close()
        finally:
            browser.close()
            page.stop()
            world.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
