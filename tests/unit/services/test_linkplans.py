"""Rehearsals of links, invitations and their ends: what it would come to, and nothing is made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.services import linkplans, links


@pytest.fixture
def site(tmp_path):
    """Alice has a container with two links; one viewer has one."""
    (tmp_path / "state").mkdir()
    site = make_site(tmp_path)
    newcomer(site, "alice")
    for name in ("alice", "alice", ""):
        links.link(site, name)
    return site


def step(plan):
    """What its one step does, to whom, and why."""
    (one,) = plan.steps
    return one.do, one.instance, one.why


def test_a_rehearsal_says_what_to_whom_and_why_and_writes_nothing(site):
    """Of a container and of viewers; what stands of passes and history stays as it is."""
    file, events = site.settings.state_dir / "passes.json", len(site.inventory.events())
    before = file.read_bytes()
    assert step(linkplans.plan_link(site, "alice"))[:2] == ("link", "alice")
    assert step(linkplans.plan_link(site))[:2] == ("link", "-")
    assert step(linkplans.plan_close(site, "alice")) == ("close", "alice", "2 sessions and links end")
    assert step(linkplans.plan_close(site)) == ("close", "-", "1 session and links end")
    assert linkplans.plan_close(site, "bob").steps == ()
    assert step(linkplans.plan_invite(site, "carol")) == ("invite", "carol", "takes one key, within 7d")
    assert linkplans.plan_withdraw(site, "carol").steps == ()
    assert (file.read_bytes(), len(site.inventory.events())) == (before, events)


def test_what_would_be_refused_is_refused_in_a_rehearsal_too(site):
    """With the same error."""
    for ask in (linkplans.plan_link, links.link):
        with pytest.raises(LxgpuError) as caught:
            ask(site, "nobody")
        assert caught.value.code == "not_found"


def test_an_invitation_has_a_longest_life(site):
    """Whoever asks for it: the service itself refuses more."""
    assert links.invite(site, "carol", life=links.LONGEST_INVITE).name == "carol"
    for ask in (linkplans.plan_invite, links.invite):
        with pytest.raises(LxgpuError, match="30 days at most"):
            ask(site, "carol", life=links.LONGEST_INVITE + timedelta(seconds=1))
