"""A name that nothing has: what was probably meant is said, the same everywhere."""

from __future__ import annotations

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.services import access, ending, lending, power
from lxgpu.services.unknown import no_container

WAYS = {
    "release": lambda site: lending.release(site, "alcie", count=None),
    "start": lambda site: power.start(site, "alcie"),
    "suspend": lambda site: ending.suspend(site, "alcie", reason="left"),
    "ssh": lambda site: access.known(site.inventory.read(), "alcie"),
}


@pytest.fixture
def site(tmp_path):
    """Alice, and carol in the trash."""
    made = make_site(tmp_path)
    newcomer(made, "alice")
    newcomer(made, "carol")
    ending.delete(made, "carol", purge=False)
    return made


@pytest.mark.parametrize("way", WAYS)
def test_every_command_offers_the_name_that_is_near(site, way):
    """A slip of the finger costs one look."""
    with pytest.raises(LxgpuError) as caught:
        WAYS[way](site)
    assert caught.value.code == "not_found"
    assert caught.value.fix == "did you mean alice? lxgpu ls lists those there are"


def test_nothing_near_is_no_guess(site):
    """A far name gets the list; what lies in the trash is not offered."""
    records = site.inventory.read()
    assert no_container(records, "zebra").fix == "lxgpu ls lists those there are"
    assert no_container(records, "carrol").fix == "lxgpu ls lists those there are"
