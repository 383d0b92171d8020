"""What people do on the page: book, see it, change it, give it up, keep; and what happens meanwhile comes by itself."""

from __future__ import annotations

import re
from datetime import timedelta

from dealings import wish
from page_client import wait_for
from page_world import Page, small_lab
from playwright.sync_api import expect

from lxgpu.services.reserve import reserve


def field(world, hours):
    """A local time of the lab as a form's field has it: so many hours from now, at a whole hour."""
    at = world.site.clock.now() + timedelta(hours=hours)
    return f"{at.replace(minute=0, second=0):%Y-%m-%dT%H:%M}"


def said(tab, text):
    """What was said beside the form has this in it."""
    expect(tab.locator("#said")).to_contain_text(text)


def test_book_see_it_edit_cancel(visit, world):
    """As one goes about it, by the mouse; the other pages know of each step at once."""
    tab, other = visit("carol", "/mine"), visit("bob", "/calendar?view=week")
    book = tab.locator("#book")
    book.get_by_label("How many GPUs").fill("2")
    book.get_by_label("At a time").check()
    book.get_by_label("Begins").fill(field(world, 30))
    book.get_by_label("For how long").fill("4h")
    book.get_by_label("What for").fill("paper deadline")
    book.get_by_role("button", name="Book").click()
    said(tab, "Booked.")
    row = tab.locator("#mine .row", has_text="paper deadline")
    expect(row).to_contain_text("2 GPUs")
    expect(other.locator(".bar", has=other.locator("[aria-label^='carol booked 2 GPUs']"))).to_be_visible()

    row.get_by_text("Edit", exact=True).click()
    row.get_by_label("How many GPUs").fill("1")
    row.get_by_label("Ends").fill(field(world, 32))
    row.get_by_role("button", name="Save").click()
    said(tab, "Changed.")
    expect(row).to_contain_text("1 GPU")
    expect(other.locator("[aria-label^='carol booked 1 GPU:']")).to_be_visible()
    (booking,) = [one for one in world.site.inventory.read().reservations if one.instance == "carol"]
    assert (booking.gpus, booking.note) == (1, "paper deadline")
    assert booking.until - booking.start == timedelta(hours=2)

    row.get_by_text("Cancel", exact=True).click()
    row.get_by_role("button", name="Cancel the booking").click()
    said(tab, "Cancelled.")
    expect(tab.locator("#mine")).to_contain_text("Nothing is booked")
    expect(other.locator("[aria-label^='carol booked']")).to_have_count(0)
    assert tab.faults + other.faults == []


def test_what_cannot_be_is_said_beside_the_form_whose_fields_stay(visit):
    """The reason, what helps, and everything typed is still there."""
    tab = visit("bob", "/mine")
    book = tab.locator("#book")
    book.get_by_label("How many GPUs").fill("900")
    book.get_by_label("What for").fill("a large model")
    book.get_by_role("button", name="Book").click()
    said(tab, "What helps:")
    expect(book.get_by_label("How many GPUs")).to_have_value("900")
    expect(book.get_by_label("What for")).to_have_value("a large model")
    book.get_by_label("How many GPUs").fill("1")
    book.get_by_label("For how long").fill("soon")
    book.get_by_role("button", name="Book").click()
    said(tab, "That time does not work")


def test_a_preemption_arrives_live(fresh, visit):
    """Alice looks at her page while bob's request takes a card: warned, with a button; gone, without a reload."""
    world, _ = fresh
    tab = visit("alice", of=fresh)
    expect(tab.locator(".card.mine")).to_have_count(2)
    with world.still:
        reserve(world.site, wish("bob", gpus=2, model="NVIDIA RTX 3090"), begin=False)
        world.turn()
    expect(tab.locator("#warned")).to_contain_text("2 of your GPUs are about to be taken")
    expect(tab.locator("#warned")).to_contain_text("bob")
    expect(tab.locator("#warned")).to_contain_text("Nothing puts this off")
    expect(tab.locator("#warned").get_by_role("button")).to_have_count(0)
    world.go_on(12)
    expect(tab.locator("#warned")).to_be_empty()
    expect(tab.locator(".card.mine")).to_have_count(0)
    expect(tab.locator(".card", has_text="bob")).to_have_count(2)
    assert tab.faults == []


def test_a_warning_of_idle_cards_is_called_off_by_its_button(tmp_path, visit):
    """Bob waits, alice's cards lie idle: she is warned, presses the button, and keeps them."""
    world = small_lab(tmp_path, grace_s=120, busy=False)
    world.go_on(12)
    world.open()
    page = Page(world)
    try:
        tab = visit("alice", of=(world, page))
        with world.still:
            reserve(world.site, wish("bob", gpus=2, model="NVIDIA RTX 3090", class_name="low"), begin=False)
            world.turn()
        expect(tab.locator("#warned")).to_contain_text("2 of your GPUs are about to be taken")
        tab.locator("#warned").get_by_role("button", name="Keep them").click()
        said(tab, "Kept.")
        expect(tab.locator("#warned")).to_be_empty()
        expect(tab.locator(".card.mine")).to_have_count(2)
        assert tab.faults == []
    finally:
        page.stop()
        world.close()


def test_idle_cards_are_kept_beforehand(visit, world):
    """The page says until when."""
    tab = visit("alice", "/mine")
    mine = tab.locator("#mine")
    mine.get_by_text("Keep while idle").click()
    mine.get_by_label("Why").fill("a long think")
    mine.get_by_role("button", name="Keep").click()
    said(tab, "Kept.")
    expect(mine).to_contain_text(re.compile(r"Kept until .*: a long think"))
    (keep,) = world.site.inventory.read().keeps
    assert (keep.instance, keep.reason) == ("alice", "a long think")


def test_what_comes_in_disturbs_nobody_who_types(visit, world):
    """A part with an open form is replaced when its form is closed, not before."""
    tab = visit("alice", "/mine")
    mine = tab.locator("#mine")
    mine.get_by_text("Hold for longer").click()
    mine.get_by_label("For how much longer").fill("7h")
    tab.evaluate("document.addEventListener('htmx:sseMessage', (event) => { window.heard = event.detail.type })")
    with world.still:
        made = reserve(world.site, wish("alice", gpus=2, at=world.site.clock.now() + timedelta(days=2)), begin=False)
        world.turn()
    wait_for(lambda: tab.evaluate("window.heard") == "mine")
    expect(mine.get_by_label("For how much longer")).to_have_value("7h")
    mine.get_by_text("Hold for longer").click()
    expect(mine).to_contain_text(made.reservations[0].id)


def test_a_click_on_a_free_time_books_from_there(visit):
    """The form has the time that was pressed."""
    tab = visit("carol", "/calendar?day=1")
    line = tab.locator(".line", has_text="GPU-00000004").locator(".track")
    box = line.bounding_box()
    line.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    tab.wait_for_url(re.compile("/mine"))
    begins = tab.locator("#book").get_by_label("Begins")
    expect(begins).to_be_visible()
    expect(begins).to_have_value(re.compile("T12:[03]0"))


def test_going_logs_out(visit):
    """And the way back shows nothing any more."""
    tab = visit("carol")
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("Who are you?")
    tab.goto("/mine")
    expect(tab.get_by_role("heading", level=1)).to_have_text("Who are you?")


def test_who_only_looks_sees_all_and_nothing_to_press(visit):
    """A viewer has no page of their own."""
    tab = visit("")
    expect(tab.locator(".card")).to_have_count(4)
    expect(tab.get_by_role("link", name="Mine")).to_have_count(0)
    expect(tab.get_by_role("link", name="Book it")).to_have_count(0)
    tab.goto("/mine")
    expect(tab).to_have_url(re.compile(r":[0-9]+/$"))
