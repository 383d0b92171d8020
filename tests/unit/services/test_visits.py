"""Who comes in by the page: links that open once, sessions that speak for one container, keys that newcomers bring."""

from __future__ import annotations

import grp
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.site import make_site, newcomer

from lxgpu import wiring
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.services import ending, links
from lxgpu.services.guest import Guests
from lxgpu.services.passbook import FILE
from lxgpu.services.passes import LIFE, PassKind
from lxgpu.services.visits import Visits

MINUTE, DAY = 60.0, 86400.0


@pytest.fixture
def site(tmp_path):
    """Alice has a container, bob has one, and root gives the commands."""
    (tmp_path / "state").mkdir()
    site = make_site(tmp_path)
    newcomer(site, "alice")
    newcomer(site, "bob")
    return site


@pytest.fixture
def door(site):
    """The uses of the page's door."""
    return Visits(lambda: site)


def text_of(address, way="in"):
    """The secret part of an address, which is the page's address, the way and that."""
    head, _, text = address.url.partition("#")
    assert head == f"http://127.0.0.1:8470/{way}"
    return text


def key_line(site, comment="laptop"):
    """A public key as one pastes it."""
    return site.login.new_key(comment)[1]


def refused(call, code="not_allowed"):
    """That a call ends in an error of that code."""
    with pytest.raises(LxgpuError) as raised:
        call()
    assert raised.value.code == code
    return raised.value


def test_a_link_becomes_a_session_once(site, door):
    """The second who comes with it is not let in; the session speaks for the container."""
    text = text_of(links.link(site, "alice"))
    entered = door.enter(text)
    assert (entered.name, entered.kind) == ("alice", "person")
    refused(lambda: door.enter(text))
    who = door.who(entered.session)
    assert who is not None
    assert (who.name, who.kind) == ("alice", "person")
    assert door.who(text) is None
    refused(lambda: door.enter(entered.session))


def test_a_link_from_inside_is_the_containers_own(site, door):
    """`gpu web` gives a link for the container whose socket was asked, and when it is over."""
    made = Guests(lambda: site, lambda: None).web("bob")
    assert made.expires == site.clock.now() + LIFE[PassKind.LINK]
    assert door.enter(text_of(made)).name == "bob"


def test_a_viewer_has_no_name(site, door):
    """A link without a container lets look."""
    entered = door.enter(text_of(links.link(site)))
    assert (entered.name, entered.kind) == (None, "viewer")


def test_links_and_sessions_end(site, door):
    """A link after ten minutes, a session after a week or when one leaves; no other ends with it."""
    late = text_of(links.link(site, "alice"))
    site.clock.sleep(10 * MINUTE)
    refused(lambda: door.enter(late))
    first, second = (door.enter(text_of(links.link(site, "alice"))) for _ in range(2))
    door.leave(first.session)
    door.leave(first.session)
    assert door.who(first.session) is None
    assert door.who(second.session) is not None
    site.clock.sleep(7 * DAY)
    assert door.who(second.session) is None


def test_all_sessions_and_links_of_one_can_be_ended_at_once(site, door):
    """Those of a container from inside or by an admin, those of viewers by an admin; an invitation and others' stay."""
    texts = [text_of(links.link(site, name)) for name in ("alice", "bob", "")]
    sessions = [door.enter(text_of(links.link(site, name))).session for name in ("alice", "bob", "")]
    invitation = text_of(links.invite(site, "alice"), "join")
    assert Guests(lambda: site, lambda: None).leave("alice").text == "2 sessions and links of the page are over"
    assert [door.who(session) is not None for session in sessions] == [False, True, True]
    refused(lambda: door.enter(texts[0]))
    assert links.close(site) == 2
    assert [door.who(session) is not None for session in sessions] == [False, True, False]
    assert links.close(site, "alice") == 0
    assert door.invited(invitation).name == "alice"
    assert door.enter(texts[1]).name == "bob"


def test_a_session_ends_with_its_container_and_is_not_that_of_another_of_the_name(site, door):
    """Alice's container is deleted and made anew: a session or a link of the old one is none of the new."""
    link = text_of(links.link(site, "alice"))
    entered = door.enter(text_of(links.link(site, "alice")))
    ending.delete(site, "alice", purge=True)
    assert door.who(entered.session) is None
    newcomer(site, "alice")
    assert door.who(entered.session) is None
    refused(lambda: door.enter(link))


def test_there_is_no_link_for_a_container_that_is_not(site):
    """Nor for one in the trash."""
    refused(lambda: links.link(site, "carol"), "not_found")
    ending.delete(site, "bob", purge=False)
    refused(lambda: links.link(site, "bob"), "not_found")


def test_there_is_no_link_for_a_container_that_is_being_made(site):
    """It would open nothing, since the container that it is for is not there yet."""
    with site.write() as tx:
        tx.put(replace(tx.records.instance("bob"), state=InstanceState.CREATING))
    refused(lambda: links.link(site, "bob"), "not_ready")


def test_a_link_whose_answer_was_not_heard_opens_again_until_its_own_end(site, door):
    """Its session is over; a link that was closed meanwhile stays closed."""
    text = text_of(links.link(site, "alice"))
    site.clock.sleep(8 * MINUTE)
    lost = door.enter(text)
    door.unheard(text, lost)
    assert door.who(lost.session) is None
    again = door.enter(text)
    door.unheard(text, again)
    site.clock.sleep(3 * MINUTE)
    refused(lambda: door.enter(text))
    text = text_of(links.link(site, "alice"))
    entered = door.enter(text)
    assert links.close(site, "alice") == 1
    door.unheard(text, entered)
    refused(lambda: door.enter(text))


def test_the_history_says_who_made_a_link_for_whom(site):
    """An admin who makes one for alice's container can be seen to have done it."""
    links.link(site, "alice")
    links.link(site)
    assert [(row.subject, row.actor) for row in site.inventory.events() if row.kind == "linked"] == [
        ("host1", "root"),
        ("alice", "root"),
    ]


def test_no_secret_text_is_kept_said_or_written_into_the_history(site, door, tmp_path):
    """Not in the file of passes, not in what is said, not in the history."""
    link, invitation = text_of(links.link(site, "alice")), text_of(links.invite(site, "alice"), "join")
    session = door.enter(link).session
    door.key(invitation, key_line(site))
    told = (tmp_path / "state" / FILE).read_text() + repr(site.inventory.events()) + repr(site.say.lines)
    assert not [text for text in (link, invitation, session) if text in told]


def test_that_all_passes_are_lost_stands_in_the_history(site, door, tmp_path):
    """Their file broke: nobody is in any more, the next one who comes gets a link, and an admin can read why."""
    session = door.enter(text_of(links.link(site, "alice"))).session
    (tmp_path / "state" / FILE).write_text("{")
    assert door.who(session) is None
    assert door.enter(text_of(links.link(site, "alice"))).name == "alice"
    lost = [event for event in site.inventory.events() if event.kind == "passes_lost"]
    assert [event.detail for event in lost] == [{"kept": str(tmp_path / "state" / f"{FILE}.bad")}]


def test_the_doors_folder_is_roots_and_the_pages_group_where_there_is_one(tmp_path, monkeypatch):
    """0700 for root alone; with the group 0750 and its, also after somebody opened it further."""
    monkeypatch.setattr(wiring, "settings", lambda: make_site(tmp_path).settings)
    monkeypatch.setattr(wiring, "PAGE_GROUP", "no-such-group")
    folder = Path(wiring.page_folder())
    assert folder == tmp_path / "run" / "page"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    monkeypatch.setattr(wiring, "PAGE_GROUP", "daemon")
    assert wiring.page_folder() == str(folder)
    found = folder.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid, found.st_uid) == (0o750, grp.getgrnam("daemon").gr_gid, 0)
