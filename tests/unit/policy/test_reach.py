"""Whom a container can hand an open file to."""

from __future__ import annotations

import pytest

from lxgpu.model.instance import Power, Sighting
from lxgpu.policy.reach import within_reach


def sighting(name, *folders):
    """A running container with disk devices."""
    devices = {f"d{number}": {"type": "disk", **folder} for number, folder in enumerate(folders)}
    devices["root"] = {"type": "disk", "path": "/", "pool": "default"}
    return Sighting(
        name=name, project="default", power=Power.RUNNING, config={}, devices=devices, expanded_devices=devices
    )


def folder(source, *, readonly="false"):
    """A folder of the host, mounted somewhere inside."""
    return {"source": source, "path": f"/mnt{source}", "readonly": readonly}


def volume(name):
    """A custom volume of the pool."""
    return {"pool": "default", "source": name, "path": "/vol"}


@pytest.mark.parametrize(
    ("alice", "bob", "reached"),
    [
        ((), (), False),
        ((folder("/data"),), (folder("/data"),), True),
        ((folder("/data/"),), (folder("/data"),), True),
        ((folder("/data"),), (folder("/data/deep"),), True),
        ((folder("/data"),), (folder("/database"),), False),
        ((folder("/data"),), (folder("/data", readonly="true"),), True),
        ((folder("/data", readonly="true"),), (folder("/data", readonly="true"),), False),
        ((volume("home-alice"),), (volume("home-bob"),), False),
        ((volume("common"),), (volume("common"),), True),
        ((volume("common"),), (folder("common"),), False),
    ],
)
def test_a_folder_that_one_of_them_writes_to(alice, bob, reached):
    """Two containers reach each other through a shared folder or volume that at least one may write to."""
    found = within_reach(["alice"], [sighting("alice", *alice), sighting("bob", *bob)])
    assert found == ({"alice", "bob"} if reached else {"alice"})


def test_through_a_third():
    """What alice can give to bob, bob can give to carol; dave shares nothing with any of them."""
    seen = [
        sighting("carol", folder("/two")),
        sighting("dave", folder("/three")),
        sighting("bob", folder("/one"), folder("/two")),
        sighting("alice", folder("/one")),
    ]
    assert within_reach(["alice"], seen) == {"alice", "bob", "carol"}
    assert within_reach(["gone"], seen) == {"gone"}
    assert within_reach([], seen) == set()
