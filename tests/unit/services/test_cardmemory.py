"""What is remembered of the cards is used only while nothing has moved."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from fakes.engine_core import Fault
from fakes.site import make_gpus, make_site

from lxgpu.errors import LxgpuError
from lxgpu.services import observe
from lxgpu.services.site import Site

FRESH = count(100)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site that has looked once."""
    made = make_site(tmp_path, gpus=2)
    observe.look(made, readings=True)
    return made


def asked(site: Site, *, readings: bool = True) -> bool:
    """Whether another look asks LXD for its cards: it then sees what LXD alone says of one."""
    node = next(FRESH)
    site.engine.cards[0] = replace(site.engine.cards[0], numa_node=node)
    return observe.look(site, readings=readings).gpus[0].numa_node == node


def test_while_nothing_moves_lxd_is_not_asked_again(site: Site) -> None:
    """The second look has the cards of the first, and they are the same."""
    assert not asked(site)
    assert not asked(site)


def test_without_readings_lxd_is_always_asked(site: Site) -> None:
    """NVML is one of the witnesses that nothing moved; where it was not heard, nothing is recalled."""
    assert asked(site, readings=False)


def test_a_new_driver_or_a_boot_makes_it_ask(site: Site) -> None:
    """The kernel's stamp moved: nodes may have other numbers now."""
    site.probe.stamp = 2
    assert asked(site)
    assert not asked(site)
    site.probe.boot = "boot-2"
    assert asked(site)


def test_a_card_that_is_new_gone_or_elsewhere_makes_it_ask(site: Site) -> None:
    """NVML lists others than it did."""
    site.engine.cards.append(make_gpus(3)[2])
    assert asked(site)
    site.engine.cards.pop(0)
    assert len(observe.look(site, readings=True).gpus) == 2
    site.engine.cards[0] = replace(site.engine.cards[0], pci="0000:99:00.0")
    assert observe.look(site, readings=True).gpus[-1].pci == "0000:99:00.0"


def test_nothing_is_recalled_or_kept_while_a_card_is_sick(site: Site) -> None:
    """A lost card, and NVML out of order: LXD is asked at every look."""
    site.probe.faults = {site.engine.cards[1].uuid: "lost"}
    assert asked(site)
    assert asked(site)
    site.probe.faults = {}
    assert asked(site)
    assert not asked(site)
    site.probe.error = "NVML cannot be used"
    assert asked(site)


def test_lxd_away_is_told_although_the_cards_are_remembered(site: Site) -> None:
    """A memory is no answer of LXD's."""
    site.engine.inject(Fault.DOWN, call="put_promises", after=9)
    with suppress(LxgpuError):
        site.engine.put_promises({}, etag=None)
    with pytest.raises(LxgpuError) as caught:
        observe.look(site, readings=True)
    assert caught.value.code == "unavailable"
