"""Invitations: a newcomer brings one key, and reads how to log in at the same address, then and later."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer, request_for

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.plan import Verdict
from lxgpu.ports import Ran
from lxgpu.services import ending, invitations, keys, linkplans, links
from lxgpu.services.passbook import passes_of
from lxgpu.services.passes import SHOWS, PassKind, found, joined
from lxgpu.services.provision import create
from lxgpu.services.visits import Visits

DAY = 86400.0


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


def text_of(address, way="join"):
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


def kinds(site, subject):
    """The history of somebody, oldest first."""
    return [event.kind for event in reversed(site.inventory.events(subject=subject))]


def test_an_invitation_takes_one_key(site, door):
    """Asked who it is for it stands; with a key it is used up, and the key lets in."""
    made = links.invite(site, "alice")
    text = text_of(made)
    assert made.expires == site.clock.now() + timedelta(days=7)
    assert [door.invited(text).name for _ in range(2)] == ["alice", "alice"]
    line = key_line(site)
    taken = door.key(text, f"  {line}\r\n")
    assert (taken.name, taken.ssh.user, taken.ssh.port) == ("alice", "alice", 22000)
    assert line in site.engine.file("alice", "/etc/ssh/authorized_keys.d/alice").content.decode()
    refused(lambda: door.key(text, key_line(site)))
    assert door.invited(text).taken == taken
    said = {event.kind: event.actor for event in site.inventory.events()}
    assert (said["invited"], said["key_added"]) == ("root", "alice (invited)")


def test_who_has_no_container_yet_may_bring_a_key(site, door):
    """It is kept, and there is nowhere to log in yet."""
    taken = door.key(text_of(links.invite(site, "carol")), key_line(site))
    assert taken.ssh is None
    assert site.policy().contact in taken.text
    assert "this address shows how to log in once it is made" in taken.text
    assert [key.person for key in site.inventory.read().keys if key.person == "carol"] == ["carol"]


@pytest.mark.parametrize(
    "wrong", ["", "no key", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----"]
)
def test_a_key_that_is_none_leaves_the_invitation(site, door, wrong):
    """Whoever pasted the wrong thing may try again."""
    text = text_of(links.invite(site, "alice"))
    refused(lambda: door.key(text, wrong), "bad_key")
    refused(lambda: door.key(text, f"{key_line(site)}\n{key_line(site)}"), "bad_key")
    assert door.key(text, key_line(site)).name == "alice"


def test_a_key_that_does_not_get_inside_counts_at_the_next_start_and_is_the_one(site, door):
    """It is written down, so the invitation is used up; that it is not inside yet is said."""
    text = text_of(links.invite(site, "alice"))
    site.engine.programs["sh"] = lambda _argv, _stdin: Ran(1, "no space left")
    taken = door.key(text, key_line(site))
    assert "it counts when your container starts next" in taken.text
    assert taken.fingerprint in {key.fingerprint for key in site.inventory.read().keys if key.person == "alice"}
    refused(lambda: door.key(text, key_line(site)))


def test_a_key_that_was_not_written_down_leaves_the_invitation(site, door):
    """Somebody else is at work on the container: nothing has come of it, and the same address does later."""
    text = text_of(links.invite(site, "alice"))
    site.locks.others.add("alice")
    refused(lambda: door.key(text, key_line(site)), "conflict")
    site.locks.others.clear()
    assert door.key(text, key_line(site)).name == "alice"


def test_a_new_invitation_makes_the_one_before_void_and_so_does_withdrawing(site, door):
    """Of one person there is one at a time; another's stands."""
    old, other = (text_of(links.invite(site, name)) for name in ("alice", "bob"))
    new = text_of(links.invite(site, "alice"))
    refused(lambda: door.invited(old))
    assert door.invited(new).name == "alice"
    assert links.withdraw(site, "alice")
    assert not links.withdraw(site, "alice")
    refused(lambda: door.invited(new))
    assert door.invited(other).name == "bob"


def test_who_was_invited_before_the_container_was_made_reads_at_the_same_address_how_to_log_in(site, door):
    """The key is taken once; the address shows the way as soon as there is one, and until it is over."""
    text = text_of(links.invite(site, "carol"))
    site.clock.sleep(6 * DAY)
    door.key(text, key_line(site, "carol@lxgpu"))
    site.clock.sleep(2 * DAY)
    assert door.invited(text).taken.ssh is None
    newcomer(site, "carol")
    shown = door.invited(text)
    assert (shown.taken.ssh.user, shown.taken.text, shown.taken.comment) == (
        "carol",
        "your key is known",
        "carol@lxgpu",
    )
    site.clock.sleep(SHOWS.total_seconds())
    refused(lambda: door.invited(text))


def test_with_the_person_all_is_over(site, door):
    """Their container and their keys are deleted: the address shows nothing of it."""
    text = text_of(links.invite(site, "bob"))
    door.key(text, key_line(site))
    ending.delete(site, "bob", purge=True)
    refused(lambda: door.invited(text))


def test_the_same_key_again_is_known(site, door):
    """Whoever did not hear the answer sends it again; with another key, or once it was taken away, nobody does."""
    text, line = text_of(links.invite(site, "alice")), key_line(site)
    taken = door.key(text, line)
    written = len(site.inventory.events())
    assert door.key(text, f" {line}\n") == taken
    assert len(site.inventory.events()) == written
    refused(lambda: door.key(text, key_line(site)))
    site.clock.sleep(SHOWS.total_seconds())
    refused(lambda: door.key(text, line))


def test_a_key_whose_writing_down_was_broken_off_may_be_sent_again(site, door):
    """The daemon was killed in the midst of it; another key is none of that invitation."""
    text, line = text_of(links.invite(site, "alice")), key_line(site)
    with passes_of(site) as book:
        mine = found(book.passes, text, PassKind.INVITE, now=site.clock.now())
        mark = parse_keys(line)[0].fingerprint
        book.passes, _ = joined(book.passes, mine, mark=mark, now=site.clock.now())
    assert door.invited(text).taken is None
    refused(lambda: door.key(text, key_line(site)))
    assert door.key(text, line).name == "alice"


def test_a_key_that_an_admin_took_away_does_not_come_back(site, door):
    """The address shows nothing any more, and takes neither that key nor another."""
    text, line = text_of(links.invite(site, "alice")), key_line(site)
    keys.remove(site, "alice", door.key(text, line).fingerprint)
    with site.write() as tx:
        for number in range(1200):  # a term's newcomers, who came since
            tx.event("key_added", f"s{number}", detail={"person": f"s{number}", "key": f"SHA256:{number}"})
    refused(lambda: door.invited(text))
    refused(lambda: door.key(text, line))
    refused(lambda: door.key(text, key_line(site)))


def test_withdrawing_ends_a_used_one_too_and_stands_in_the_history(site, door):
    """Whatever was given or taken back has a line; what was not there has none."""
    text = text_of(links.invite(site, "carol"))
    door.key(text, key_line(site))
    assert links.withdraw(site, "carol")
    assert not links.withdraw(site, "carol")
    refused(lambda: door.invited(text))
    assert kinds(site, "carol") == ["invited", "key_added", "invite_withdrawn"]


def test_nobody_gets_an_address_that_the_history_does_not_know(site):
    """The disk is full: the command fails before the address is given out."""

    class Full:
        """An inventory that is read, and not written."""

        def __getattr__(self, name):
            return getattr(site.inventory, name)

        def write(self, **_):
            """No room."""
            raise LxgpuError("inventory_storage", "no room")

    full = replace(site, inventory=Full())
    refused(lambda: links.invite(full, "carol"), "inventory_storage")
    assert kinds(site, "carol") == []


def test_invitations_are_listed_with_what_they_are_good_for(site, door):
    """Those that take a key, and those that took one; none that is over."""
    links.invite(site, "carol", life=timedelta(days=2))
    links.invite(site, "dave", life=timedelta(days=1))
    text = text_of(links.invite(site, "alice"))
    door.key(text, key_line(site))
    site.clock.sleep(DAY)
    now = site.clock.now()
    found = invitations.views(site.settings.state_dir, now)
    assert [(one.person, one.state, one.expires - now) for one in found] == [
        ("alice", "used", timedelta(days=6)),
        ("carol", "open", timedelta(days=1)),
    ]


def test_a_rehearsal_says_what_would_be_void_and_changes_nothing(site):
    """Of an invitation, and of taking it back; a name that is none is refused."""
    folder = site.settings.state_dir
    links.invite(site, "carol")
    before, there = site.inventory.read().version, invitations.views(folder, site.clock.now())
    plan = linkplans.plan_invite(site, "carol", life=timedelta(days=1))
    assert plan.decision is Verdict.GRANTED
    assert plan.steps[0].why == "takes one key, within 1d; the one until 2027-03-08T08:00:00Z is void then"
    (step,) = linkplans.plan_withdraw(site, "carol").steps
    assert (step.do, step.instance, step.why) == ("withdraw", "carol", "open until 2027-03-08T08:00:00Z")
    assert linkplans.plan_withdraw(site, "dave").steps == ()
    refused(lambda: linkplans.plan_invite(site, "Carol!"), "bad_name")
    assert (site.inventory.read().version, invitations.views(folder, site.clock.now())) == (before, there)


def bare(site, name):
    """`lxgpu create NAME` of somebody who gave no key."""
    create(site, replace(request_for(site, name), keys=()))


def test_who_is_invited_gets_no_key_pair_of_lxgpus(site, door):
    """Their container is made without one, which is said, and the key that they bring lets them in."""
    text = text_of(links.invite(site, "carol"))
    bare(site, "carol")
    assert not (site.settings.state_dir / "keys").exists()
    assert any("carol has no key yet, and is invited to bring one until 2027-03-08" in line for line in site.say.lines)
    line = key_line(site)
    assert door.key(text, line).ssh.user == "carol"
    assert line in site.engine.file("carol", "/etc/ssh/authorized_keys.d/carol").content.decode()


def test_who_brought_a_key_before_gets_no_pair_either(site, door):
    """The key of the invitation is the one; with neither a pair is made, as ever."""
    door.key(text_of(links.invite(site, "carol")), line := key_line(site))
    bare(site, "carol")
    assert line in site.engine.file("carol", "/etc/ssh/authorized_keys.d/carol").content.decode()
    assert not (site.settings.state_dir / "keys").exists()
    bare(site, "dave")
    assert (site.settings.state_dir / "keys" / "dave").exists()
