"""A quarantined card is nobody's until it is proven free, and then it is free like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import GpuRequest
from lxgpu.services import lending
from lxgpu.services.notices import send_due
from lxgpu.services.site import Site


def stuck(folder: Path) -> tuple[Site, object]:
    """Alice's card cannot be proven free: a process of hers does not even end by KILL."""
    site = make_site(folder, gpus=2)
    newcomer(site, "alice", gpus=1)
    (held,) = site.inventory.read().held_by("alice")
    card = next(gpu for gpu in site.engine.cards if gpu.uuid == held.slot.gpu)
    process = site.probe.run(site.engine.init("alice"), card.nodes, stuck=True)
    with pytest.raises(LxgpuError, match="could not be proven free"):
        lending.release(site, "alice", count=None, busy=True)
    return site, process


def more(site: Site, number: int) -> None:
    """`lxgpu attach alice --gpus N`."""
    request = GpuRequest(instance="alice", owner="", more=0)
    lending.attach(site, "alice", number=number, more=False, request=request, lease_s=None)


def test_it_does_not_count_as_held(tmp_path: Path) -> None:
    """Alice asks for one card and gets another one."""
    site, _ = stuck(tmp_path)
    more(site, 1)
    states = sorted(row.state.value for row in site.inventory.read().held_by("alice"))
    assert states == ["active", "quarantined"]


def test_the_holder_and_the_admins_are_told_once(tmp_path: Path) -> None:
    """Why, and what each can do; a release that fails again is no news."""
    site, process = stuck(tmp_path)
    with pytest.raises(LxgpuError, match="could not be proven free"):
        lending.release(site, "alice", count=None, busy=True)
    send_due(site)
    ((subject, text, mail),) = site.notify.sent
    assert "could not be proven free" in subject
    assert f"({process.pid})" in text
    assert "lxgpu stop alice --yes" in " ".join(text.split())
    assert mail == site.policy().contact


def test_a_later_release_that_proves_it_clears_it(tmp_path: Path) -> None:
    """The process has ended at last: the card goes to whoever asks next, and LXD's promises say so too."""
    site, process = stuck(tmp_path)
    site.probe.end(process)
    lending.release(site, "alice", count=None, busy=True)
    assert not [record for record in site.inventory.read().slots if record.quarantine]
    assert "quarantined" not in site.engine.promises.get("user.lxgpu.promises", "")
    newcomer(site, "bob", gpus=2)
