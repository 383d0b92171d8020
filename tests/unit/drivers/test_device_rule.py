"""The device rule by both of the kernel's ways, tried by really opening."""

from __future__ import annotations

import os
import struct

import pytest
from leftovers import trials_left

from lxgpu.drivers import device_bpf
from lxgpu.drivers.device_rule import set_rule
from lxgpu.drivers.openable import openable
from lxgpu.drivers.syscalls import bpf
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

EPERM = os.strerror(1)


@pytest.fixture(params=["v1", "bpf"])
def mode(request):
    """Each way."""
    return request.param


def test_the_answer_is_what_open_gives(mode, inside, cgroups, card, other):
    """`openable` asks by access(2); a real open in the container agrees, before, under and after the rule."""
    for denied in ([], [card], [card, other], [other], []):
        allowed = [node for node in (card, other) if node not in denied]
        set_rule(cgroups, inside.init, denied=denied, allowed=allowed, mode=mode)
        assert openable(cgroups, inside.init, [card, other]) == set(allowed)
        assert {node for node in (card, other) if inside.attempt(node) == "ok"} == set(allowed)
    set_rule(cgroups, inside.init, denied=[card], allowed=[other], mode=mode)
    assert inside.attempt(card) == EPERM


def test_the_rule_holds_wherever_the_node_lies(mode, inside, cgroups, card):
    """The number is denied, not the path: a node kept elsewhere does not open either."""
    kept = DeviceNode("kept", card.major, card.minor)
    os.mknod(inside.path(kept), 0o020666, os.makedev(card.major, card.minor))
    set_rule(cgroups, inside.init, denied=[card], allowed=[], mode=mode)
    assert inside.attempt(kept) == EPERM


def test_cgroups_made_inside_are_under_the_rule_and_freed_with_it(mode, inside, cgroups, card):
    """A service's own cgroup, older than the rule, is denied too, and opens again when the card is lent."""
    inside.start("nothing", below="system.slice")
    set_rule(cgroups, inside.init, denied=[card], allowed=[], mode=mode)
    assert inside.attempt(card, below="system.slice") == EPERM
    set_rule(cgroups, inside.init, denied=[], allowed=[card], mode=mode)
    assert inside.attempt(card, below="system.slice") == "ok"


def test_a_list_of_the_containers_own_is_left_alone(inside, cgroups, card):
    """A nested cgroup that allows nothing but its own list does not get a card because its container does."""
    inside.start("nothing", below="docker")
    nested = inside.place("devices") / "docker"
    (nested / "devices.deny").write_text("a")
    set_rule(cgroups, inside.init, denied=[card], allowed=[], mode="v1")
    set_rule(cgroups, inside.init, denied=[], allowed=[card], mode="v1")
    assert (nested / "devices.list").read_text() == ""


def test_many_cards_fit(mode, inside, cgroups):
    """A host with dozens of cards and slices has one rule for all of them."""
    cards = [DeviceNode(f"nvidia{minor}", 195, minor) for minor in range(200)]
    set_rule(cgroups, inside.init, denied=cards[:100], allowed=cards[100:], mode=mode)
    assert openable(cgroups, inside.init, cards) == set(cards[100:])


def test_one_program_is_attached_and_none_without_need(inside, cgroups, card, other):
    """However often the rule is set, one program is left; with nothing denied, none."""
    top = cgroups.top(inside.init, "")
    for denied in ([card], [other], [card, other]):
        set_rule(cgroups, inside.init, denied=denied, allowed=[], mode="bpf")
        assert len(device_bpf.attached(top)) == 1
    set_rule(cgroups, inside.init, denied=[], allowed=[card, other], mode="bpf")
    assert device_bpf.attached(top) == []


def test_a_program_of_the_container_manager_stays(inside, cgroups, card, other):
    """Programs of others keep their say; a nameless one (liblxc's, from raw.lxc) goes when it is ours to replace."""
    top = cgroups.top(inside.init, "")
    attach_nameless(top, other)
    device_bpf.attach(top, [(card.major, card.minor)])
    assert openable(cgroups, inside.init, [card, other]) == set()
    device_bpf.attach(top, [(card.major, card.minor)], replace_nameless=True)
    assert openable(cgroups, inside.init, [card, other]) == {other}


def test_a_block_device_of_the_same_number_is_not_denied(inside, cgroups):
    """The rule is for character devices: 7:0 is also the first loop device."""
    loop = DeviceNode("loop", 7, 0)
    set_rule(cgroups, inside.init, denied=[loop], allowed=[], mode="bpf")
    node = inside.path(DeviceNode("block", 7, 0))
    os.mknod(node, 0o060666, os.makedev(7, 0))
    assert inside.attempt(DeviceNode("block", 7, 0)) != EPERM
    assert openable(cgroups, inside.init, [loop]) == set()


def test_without_a_rule_nothing_is_set(inside, cgroups, card):
    """`device_rule: off` leaves everything open."""
    set_rule(cgroups, inside.init, denied=[card], allowed=[], mode="off")
    assert openable(cgroups, inside.init, [card]) == {card}


@pytest.mark.parametrize("mode", ["auto", "v1", "bpf"])
def test_a_process_of_the_host_is_no_container(mode, cgroups, card):
    """The rule of a process in the top cgroup would be everybody's: refused."""
    with pytest.raises(LxgpuError) as raised:
        set_rule(cgroups, 1, denied=[card], allowed=[], mode=mode)
    assert raised.value.code == "unavailable"
    assert os.access("/dev/zero", os.R_OK)


def test_nothing_is_left_in_dev(inside, cgroups, card):
    """The nodes of a trial are gone when it ends."""
    openable(cgroups, inside.init, [card])
    assert not trials_left(os.getpid())


def attach_nameless(top, node):
    """A program as liblxc attaches it: for the same purpose as ours, and without a name."""
    code = device_bpf._instructions([(node.major, node.minor)])  # noqa: SLF001 - the same instructions, another name
    import ctypes  # noqa: PLC0415

    kept, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    fields = (15, len(code) // 8, ctypes.addressof(kept), ctypes.addressof(licence))
    program, _ = bpf(5, struct.pack("<IIQQIIQII16sII", *fields, 0, 0, 0, 0, 0, b"", 0, 0))
    cgroup = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    bpf(8, struct.pack("<IIII", cgroup, program, 6, 2))
    os.close(program)
    os.close(cgroup)


def test_whether_a_program_decides_is_told(inside, cgroups, card):
    """On the cgroup itself or above it, ours or another's; without any, only version 1 has a say."""
    top = cgroups.top(inside.init, "")
    below = top / "made-inside"
    below.mkdir()
    assert not device_bpf.decides(top)
    device_bpf.attach(top, [(card.major, card.minor)])
    assert device_bpf.decides(top)
    assert device_bpf.decides(below)
    device_bpf.attach(top, [])
    assert not device_bpf.decides(below)
    attach_nameless(top, card)
    assert device_bpf.decides(below)
    assert openable(cgroups, inside.init, [card]) == set()
