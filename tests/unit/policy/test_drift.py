"""Differences between LXD and the inventory: what is in the midst of a change is not taken for damage."""

from __future__ import annotations

import pytest
from inventory_rows import T0, instance, operation, person

from lxgpu.model.instance import Power, Sighting
from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Observation, Records
from lxgpu.policy.drift import findings


def _ours(name: str, *, mark: str) -> Sighting:
    config = {"volatile.uuid": "u1", **({"user.lxgpu.uuid": mark} if mark else {})}
    return Sighting(name, "default", Power.STOPPED, config=config, devices={}, expanded_devices={})


@pytest.mark.parametrize("in_lxd", ["old", "new"])
def test_a_rename_half_way_is_one_finding_whose_remedy_is_to_go_on(in_lxd):
    """Neither name is called lost or an orphan: "delete it" would destroy a container that is only half renamed."""
    row = instance("new", owner="alice", uuid="u1", engine_name="old")
    there = _ours(in_lxd, mark="u1")
    records = Records(
        version=1,
        identity=Identity("i", 1),
        persons=(person(),),
        instances=(row,),
        operations=(operation(kind="rename", instance="new", step="stop"),),
    )
    seen = Observation("gpu1", "boot", T0, sightings=(there,))
    assert there.ours
    assert [(one.code, one.subject) for one in findings(records, seen)] == [("half_done", "new")]


def test_a_container_without_its_mark_is_not_taken_for_another():
    """LXD's own identity says that it is the same one; the remedy keeps it."""
    records = Records(version=1, identity=Identity("i", 1), persons=(person(),), instances=(instance(uuid="u1"),))
    seen = Observation("gpu1", "boot", T0, sightings=(_ours("alice", mark=""),))
    (found,) = findings(records, seen)
    assert (found.code, found.subject) == ("unmarked", "alice")
    assert "restart alice" in found.fix
