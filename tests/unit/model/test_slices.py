"""Layouts in MIG slices: written, placed, kept with what was made of them, and seen as what is lent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes.site import make_gpus
from fakes.slicer import A100, FakeSlicer
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.assignment import Card
from lxgpu.model.cardnames import lent_as, n_asked, n_held, short_model
from lxgpu.model.devices import slice_devices
from lxgpu.model.gpu import GpuProcess, Reading, Slot, share_of
from lxgpu.model.layout import divide, in_parts, kind, layout_of, looked_at, names, suits, whole
from lxgpu.model.rules import CardRule, Mode
from lxgpu.model.slices import PENDING, made_text, placed, profiles, slices_of, unmade

NOW = datetime(2027, 5, 1, tzinfo=UTC)
GPU = replace(make_gpus(1)[0], model="NVIDIA A100-SXM4-40GB")
LAYOUT = "3g.20gb+2g.10gb+1g.5gb+me"
KINDS = {one.profile: one for one in A100}
SLICER = FakeSlicer.__new__(FakeSlicer)
MADE = tuple(
    SLICER.slice_of(GPU.uuid, one, start, at) for at, (one, start) in enumerate([("3g.20gb", 4), ("2g.10gb", 2)])
)
TWO = "3g.20gb+2g.10gb"


def card(**more):
    """The card as the inventory remembers it."""
    return Card(uuid=GPU.uuid, host="host1", pci=GPU.pci, model=GPU.model, memory_bytes=None, seen_at=NOW, **more)


def test_a_layout_is_written_and_read():
    """The order of the policy is the order of the slots; media engines have a plus of their own."""
    assert layout_of(CardRule(Mode.MIG, slices=("3g.20gb", "2g.10gb", "1g.5gb+me"))) == LAYOUT
    assert profiles(LAYOUT) == ("3g.20gb", "2g.10gb", "1g.5gb+me")
    assert names("GPU-1", LAYOUT) == ("GPU-1/1-3g.20gb", "GPU-1/2-2g.10gb", "GPU-1/3-1g.5gb+me")
    assert [Slot(name).profile for name in names("GPU-1", LAYOUT)] == list(profiles(LAYOUT))
    assert (Slot("GPU-1/2/4").profile, Slot("GPU-1").profile) == ("", "")


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=7))
def test_slices_never_overlap_and_never_exceed_the_card(wanted):
    """Each at a place of its own; what is placed adds up to no more than the card has, in any order of asking."""
    found = placed(wanted, A100)
    if found is not None:
        taken = [at for one, start in zip(wanted, found, strict=True) for at in range(start, start + KINDS[one].size)]
        assert len(taken) == len(set(taken)) <= 8
        assert all(start in KINDS[one].starts for one, start in zip(wanted, found, strict=True))
        assert sum(KINDS[one].slices for one in wanted) <= 7
    assert (placed(wanted[::-1], A100) is None) == (found is None)


@pytest.mark.parametrize(
    ("wanted", "starts"),
    [
        (("3g.20gb", "2g.10gb", "2g.10gb"), (4, 2, 0)),
        (("3g.20gb", "3g.20gb"), (4, 0)),
        (("4g.20gb", "3g.20gb"), (0, 4)),
        (("1g.5gb",) * 7, (6, 5, 4, 3, 2, 1, 0)),
        (("7g.40gb",), (0,)),
        (("4g.20gb", "4g.20gb"), None),
        (("3g.20gb", "3g.20gb", "1g.5gb"), None),
    ],
)
def test_layouts_of_the_guide(wanted, starts):
    """What NVIDIA's guide shows for an A100, and what has no room there."""
    assert placed(wanted, A100) == starts


def test_what_was_made_counts_for_its_layout_and_its_boot_alone():
    """After another layout or another boot it is to be made; a whole card with something made is to be cleared."""
    made = made_text("boot-1", MADE)
    assert slices_of(card(layout=TWO, made=made), "boot-1") == MADE
    assert not unmade(card(layout=TWO, made=made), "boot-1")
    assert unmade(card(layout=TWO, made=made), "boot-2")
    assert unmade(card(layout="3g.20gb", made=made), "boot-1")
    assert unmade(card(layout=TWO), "boot-1")
    assert unmade(card(layout=TWO, made=PENDING), "boot-1")
    assert unmade(card(made=made), "boot-1")
    assert unmade(card(made=PENDING, layout="4"), "boot-1")
    assert not unmade(card(layout="4"), "boot-1")


def test_slices_are_cards_with_nodes_of_their_own():
    """Of the card's nodes they share one, and none that draws; the card comes back from any of them."""
    first, second = divide([GPU], {GPU.uuid: TWO}, {GPU.uuid: MADE})
    assert [node.path for node in first.nodes] == ["nvidia1", *(node.path for node in MADE[0].nodes)]
    assert set(first.nodes) & set(second.nodes) == {GPU.nodes[2]}
    assert (first.model, second.model) == ("NVIDIA A100-SXM4-40GB 3g.20gb", "NVIDIA A100-SXM4-40GB 2g.10gb")
    assert whole([first, second]) == (GPU,)
    assert looked_at([first, second]) == (first, second)
    assert set(first.around) == {*first.nodes, *GPU.nodes}
    bare, _ = divide([GPU], {GPU.uuid: TWO})
    assert (bare.slice, bare.nodes) == ("", (GPU.nodes[2],))


def test_a_slice_comes_as_character_devices():
    """By numbers: its card's node and its two; what all cards share by its path, which may be missing."""
    first, _ = divide([GPU], {GPU.uuid: TWO}, {GPU.uuid: MADE})
    found = slice_devices(first)
    numbered = {one["path"]: (one["major"], one["minor"]) for one in found.values() if "minor" in one}
    assert numbered == {f"/dev/{node.path}": (str(node.major), str(node.minor)) for node in first.nodes}
    shared = {one["source"]: one["required"] for one in found.values() if "source" in one}
    assert shared == dict.fromkeys(("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"), "false")
    assert all(one["type"] == "unix-char" for one in found.values())


def test_who_asks_for_a_slice_gets_exactly_such_a_one():
    """Two profiles of the same share are two kinds; a share of a card may be a slice that is large enough."""
    assert kind("* 3g.20gb") == ("*", 3 / 7, False, "3g.20gb")
    assert suits("NVIDIA A100 1g.10gb", "* 1g.10gb")
    assert not suits("NVIDIA A100 1g.5gb", "* 1g.10gb")
    assert not suits("NVIDIA A100", "* 7g.40gb")
    assert not suits("NVIDIA A100 7g.40gb", "*")
    assert in_parts("NVIDIA A100 7g.40gb")
    assert suits("NVIDIA A100 2g.10gb", "* 0.25")
    assert not suits("NVIDIA A100 1g.10gb", "* 0.25")
    assert share_of("GPU-1/1-2g.10gb") == share_of("NVIDIA A100 2g.10gb") == 2 / 7


def test_slices_have_names_for_people():
    """As parts have them."""
    assert short_model("NVIDIA A100-SXM4-40GB 3g.20gb") == "3g.20gb of A100-SXM4-40GB"
    assert n_asked(1, "* 1g.10gb") == "1g.10gb of a card"
    assert lent_as("NVIDIA A100-SXM4-40GB", "GPU-1/1-3g.20gb") == "NVIDIA A100-SXM4-40GB 3g.20gb"
    assert n_held(["GPU-1/1-3g.20gb", "GPU-2", "GPU-3/2/4"]) == "1 GPU and 1/4 of a GPU and 3g.20gb of a GPU"


def test_a_slice_is_idle_by_its_own_programs():
    """None that computes: idle. One: nobody knows how busy. NVML does not show the slice: that is its fault."""
    idle = Reading("MIG-1", NOW, processes=())
    works = Reading("MIG-2", NOW, processes=(GpuProcess(1, 5, "compute"),), memory_used_bytes=5)
    reading = Reading(GPU.uuid, NOW, slices=(idle, works))
    assert reading.of_slice("MIG-1", "one").utilization_percent == 0
    assert reading.of_slice("MIG-2", "two").utilization_percent is None
    assert (reading.of_slice("MIG-2", "two").uuid, reading.of_slice("MIG-2", "two").memory_used_bytes) == ("two", 5)
    assert reading.of_slice("MIG-3", "three").fault == "missing"
    assert replace(reading, fault="lost").of_slice("MIG-1", "one").fault == "lost"
    assert Reading(GPU.uuid, NOW).of_slice("MIG-1", "one").fault == "missing"
