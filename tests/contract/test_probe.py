"""What every probe and brake promises, asked of the real ones (processes and cgroups of this host) and of the fakes."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.people import FakeBrake
from far_probe import far
from nvml_library import Library
from probe_worlds import ABSENT, CARD, OTHER, FakeWorld, RealWorld

from lxgpu.drivers.brake import FreezerBrake
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits

NOBODY = 2**22 - 1
KEY = "testkey"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The stand-in NVML library of the lab, with two cards."""
    return Library(tmp_path_factory.mktemp("nvml"), (CARD, OTHER))


@pytest.fixture(params=["fake", "real-v1", "real-bpf", "far-v1"])
def world(request, library, monkeypatch):
    """A host with a container, of each kind; the real one with each kind of device rule, and through a connection."""
    if request.param == "fake":
        yield FakeWorld()
        return
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.directory))
    library.write()
    with contextlib.ExitStack() as stack:
        where, _, device_rule = request.param.partition("-")
        made = RealWorld(library, device_rule, stack)
        if where == "far":
            made.probe = stack.enter_context(far(made.probe))
        yield made


def held_by(world, init="mine"):
    """The holders of CARD, those of the container or (None) of the host."""
    return world.probe.holders([world.init] if init == "mine" else init, [CARD])[CARD.uuid]


def pids(holders):
    """Who it is, without the words about how."""
    return {(one.pid, one.start_time) for one in holders.processes}


def is_one(process):
    """As `pids` has it."""
    return {(process.pid, process.start_time)}


def test_nodes_inside_are_found_by_number(world):
    """A node counts as inside wherever it lies below /dev, and only if it is there."""
    renamed = replace(OTHER.nodes[0], path="nvidia3")
    assert world.probe.nodes_inside(world.init, [*CARD.nodes, renamed, ABSENT]) == {*CARD.nodes, renamed}


def test_a_denied_node_does_not_open_until_it_is_allowed(world):
    """The rule takes opening away by number, gives it back, and touches no other node."""
    every = [*CARD.nodes, *OTHER.nodes, ABSENT]
    assert world.probe.openable(world.init, every) == set(every)
    world.probe.set_rule(world.init, denied=CARD.nodes, allowed=[*OTHER.nodes, ABSENT])
    assert world.probe.openable(world.init, every) == {*OTHER.nodes, ABSENT}
    assert not world.opens()
    world.probe.set_rule(world.init, denied=CARD.nodes, allowed=[*OTHER.nodes, ABSENT])
    world.probe.set_rule(world.init, denied=[ABSENT], allowed=[*CARD.nodes, *OTHER.nodes])
    assert world.probe.openable(world.init, every) == {*CARD.nodes, *OTHER.nodes}
    assert world.opens()


def test_more_can_be_denied_without_another_word(world):
    """What is denied beside stays denied, what opens elsewhere stays open; the next whole rule counts for all."""
    every = [*CARD.nodes, *OTHER.nodes, ABSENT]
    world.probe.set_rule(world.init, denied=[ABSENT], allowed=[*CARD.nodes, *OTHER.nodes])
    for _ in range(2):
        world.probe.deny(world.init, CARD.nodes)
        assert world.probe.openable(world.init, every) == set(OTHER.nodes)
    world.probe.set_rule(world.init, denied=[ABSENT], allowed=[*CARD.nodes, *OTHER.nodes])
    assert world.probe.openable(world.init, every) == {*CARD.nodes, *OTHER.nodes}


def test_a_rule_counts_for_its_container_only(world):
    """Somebody else's container opens what this one may not."""
    world.probe.set_rule(world.init, denied=CARD.nodes, allowed=())
    other = world.hold_elsewhere()
    assert pids(held_by(world, None)) == is_one(other)


def test_what_is_open_stays_open_under_the_rule(world):
    """The rule revokes opening, not what is open: that is why the fence looks for holders."""
    process = world.hold()
    world.probe.set_rule(world.init, denied=CARD.nodes, allowed=())
    assert pids(held_by(world)) == is_one(process)


def test_nobody_holds_a_card_that_nobody_opened(world):
    """A container that runs and holds nothing is proven free."""
    assert held_by(world).free
    assert held_by(world, None).free


def test_a_holder_is_found_with_its_start_time(world):
    """Who has the node open is named, among the container's and among all containers' processes."""
    process = world.hold()
    assert pids(held_by(world)) == is_one(process)
    assert pids(held_by(world, None)) == is_one(process)
    assert not world.probe.holders([world.init], [OTHER])[OTHER.uuid].processes


def test_another_containers_holder_is_not_this_ones(world):
    """On a shared card only this container's processes are named."""
    other = world.hold_elsewhere()
    mine = world.hold()
    assert pids(held_by(world)) == is_one(mine)
    assert pids(held_by(world, None)) == is_one(mine) | is_one(other)


def test_what_is_hidden_is_unknown(world):
    """A descriptor in nobody's list makes the answer doubtful, and doubtful is not free."""
    world.hide()
    found = held_by(world)
    assert found.unknown
    assert not found.free


def test_what_another_container_hides_is_no_doubt_for_the_host(world):
    """Who never had the card cannot hide it: one user with a descriptor in flight blocks nobody's card."""
    world.hide()
    assert held_by(world, None).free


def test_a_compute_process_of_the_host_holds_a_card(world):
    """NVML's compute list counts for the host as a whole, and not for a container that has no part in it."""
    process = world.computes_on_the_host()
    assert pids(held_by(world, None)) == is_one(process)
    assert not held_by(world).processes


def test_without_nvml_nothing_is_proven(world):
    """No list of NVML, no proof: neither when the card is lost nor when NVML is out of order."""
    world.nvml(lost=CARD)
    assert held_by(world).unknown
    assert not world.probe.holders([world.init], [OTHER])[OTHER.uuid].unknown
    world.nvml(error=True)
    assert held_by(world).unknown
    world.nvml()
    assert world.probe.holders([world.init], [replace(CARD, uuid="GPU-nobody")])["GPU-nobody"].unknown


def test_term_may_be_ignored_kill_may_not(world):
    """TERM leaves a stubborn holder, KILL ends it, and then it cannot be signalled any more."""
    process = world.hold_stubbornly()
    assert world.probe.signal(process, signal.SIGTERM)
    assert pids(held_by(world)) == is_one(process)
    assert world.probe.signal(process, signal.SIGKILL)
    assert world.gone(process)
    assert not world.probe.signal(process, signal.SIGKILL)
    assert held_by(world).free


def test_a_later_process_of_the_same_pid_is_not_signalled(world):
    """The start time decides: an impostor stays alive."""
    process = world.hold()
    former = replace(process, start_time=process.start_time - 1)
    assert not world.probe.signal(former, signal.SIGKILL)
    assert pids(held_by(world)) == is_one(process)


def test_a_frozen_process_is_killed(world):
    """A frozen container keeps no card."""
    process = world.hold()
    world.freeze()
    assert world.probe.signal(process, signal.SIGKILL)
    assert world.gone(process)


def test_a_restart_loop_ends_at_the_rule(world):
    """Under the rule a process that comes back after KILL comes back without the card."""
    process = world.hold_again_and_again()
    world.probe.set_rule(world.init, denied=CARD.nodes, allowed=())
    assert world.probe.signal(process, signal.SIGKILL)
    assert world.gone(process)
    assert not held_by(world).processes


def test_limits_are_read_back(world):
    """What is set on the container's cgroups is told; what is not set is None."""
    assert world.probe.limits(world.init).memory_bytes is None
    world.bound()
    assert world.probe.limits(world.init) == Limits(cpu=1, memory_bytes=2**28, processes=64)


def test_a_message_reaches_terminals(world):
    """Each terminal counts as delivered; with none, nothing is delivered and nothing missed."""
    assert world.probe.tell(world.init, "your card goes to bob") == (0, 0)
    world.sits_down()
    assert world.probe.tell(world.init, "your card goes to bob") == (1, 0)


def test_a_stopped_terminal_is_missed_without_waiting(world):
    """Output that nobody takes is told as missed, and holds nobody up."""
    world.sits_down_and_stops_output()
    assert world.probe.tell(world.init, "your card goes to bob") == (0, 1)


def test_readings_name_cards_by_uuid(world):
    """One sample a card, with its use; no process means an empty list, and not "not known"."""
    world.nvml(busy=OTHER)
    found = world.probe.readings()
    assert (found.error, found.driver) == (None, "550.54.15")
    assert [item.uuid for item in found.items] == [CARD.uuid, OTHER.uuid]
    assert [item.utilization_percent for item in found.items] == [0, 90]
    assert [item.processes for item in found.items] == [(), ()]


def test_a_lost_card_hides_no_other(world):
    """The lost one has a fault and no figures; the others have theirs."""
    world.nvml(lost=CARD, busy=OTHER)
    found = world.probe.readings()
    assert found.error is None
    faults = {item.index: item.fault for item in found.items}
    assert faults == {0: "lost", 1: None}
    assert found.items[0].utilization_percent is None
    assert found.items[0].memory_used_bytes is None
    assert found.items[0].processes is None
    assert found.items[1].utilization_percent == 90


def test_nvml_out_of_order_is_an_error_and_no_empty_host(world):
    """Without NVML there are no samples, and the reason is told."""
    world.nvml(error=True)
    found = world.probe.readings()
    assert not found.items
    assert found.error


def test_the_boot_has_a_name_that_stays(world):
    """Asked twice in one boot, it is the same and not empty."""
    assert world.probe.boot_id() == world.probe.boot_id() != ""


def test_a_listening_port_is_told(world):
    """A port on which anything listens is taken."""
    port = world.listens()
    assert port in world.probe.listening_ports()
    assert 1 not in world.probe.listening_ports()


def test_a_file_inside_is_read_as_far_as_asked(world):
    """No more than asked for is read, and what is not there is None."""
    world.leaves("/dev/note", b"0123456789")
    assert world.probe.read_file(world.init, "/dev/note", most=4) == b"0123"
    assert world.probe.read_file(world.init, "/dev/note", most=4096) == b"0123456789"
    assert world.probe.read_file(world.init, "/dev/absent", most=4096) is None
    assert world.probe.read_file(world.init, "/dev/note/below", most=4096) is None


def test_a_pipe_inside_holds_nobody_up(world):
    """Where a file is expected, a user may put something that never answers: it is no file."""
    world.leaves_a_pipe("/dev/pipe")
    assert world.probe.read_file(world.init, "/dev/pipe", most=4096) is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda probe: probe.holders([NOBODY], [CARD]),
        lambda probe: probe.nodes_inside(NOBODY, CARD.nodes),
        lambda probe: probe.openable(NOBODY, CARD.nodes),
        lambda probe: probe.set_rule(NOBODY, denied=CARD.nodes, allowed=()),
        lambda probe: probe.deny(NOBODY, CARD.nodes),
        lambda probe: probe.limits(NOBODY),
        lambda probe: probe.tell(NOBODY, "hello"),
        lambda probe: probe.read_file(NOBODY, "/etc/passwd", most=1),
    ],
    ids=["holders", "nodes_inside", "openable", "set_rule", "deny", "limits", "tell", "read_file"],
)
def test_a_container_that_has_ended_is_no_empty_one(world, ask):
    """Nothing is said of a container that is not there: neither free nor empty, but an error."""
    with pytest.raises(LxgpuError) as raised:
        ask(world.probe)
    assert raised.value.code == "unavailable"


# ---- the brake, which stands beside the probe


@pytest.fixture
def brake(world):
    """The brake of that host; nothing of it is left after a test."""
    found = FakeBrake(world.probe) if isinstance(world, FakeWorld) else FreezerBrake()
    yield found
    found.free(KEY, world.init)
    assert found.held(KEY) == ()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/lxgpu.stop-{KEY}"))


def named(processes):
    """Who it is."""
    return {(one.pid, one.start_time) for one in processes}


def test_who_is_held_is_named_until_it_is_free(world, brake):
    """Held twice is held once; freed twice is freed."""
    process = world.hold()
    assert brake.held(KEY) == ()
    for _ in range(2):
        brake.hold(KEY, world.init, [process.pid])
        assert named(brake.held(KEY)) == named([process])
    for _ in range(2):
        brake.free(KEY, world.init)
        assert brake.held(KEY) == ()


def test_nobody_elses_process_is_held(world, brake):
    """A pid that is another container's, or nobody's, is left alone."""
    other = world.hold_elsewhere()
    brake.hold(KEY, world.init, [other.pid, NOBODY])
    assert brake.held(KEY) == ()


def test_a_held_process_still_holds_its_card_and_is_killed_by_the_probe(world, brake):
    """It is found where it was, and KILL lands at once."""
    process = world.hold()
    brake.hold(KEY, world.init, [process.pid])
    assert named(world.probe.holders([world.init], [CARD], still=False)[CARD.uuid].processes) == named([process])
    assert world.probe.signal(process, signal.SIGKILL)
    assert world.gone(process)
    assert brake.held(KEY) == ()


def test_nothing_stays_of_who_was_killed_just_now(world, brake):
    """Freed at once after KILL, while it is still ending."""
    several = [world.hold() for _ in range(8)]
    brake.hold(KEY, world.init, [one.pid for one in several])
    for one in several:
        world.killed(one)
    brake.free(KEY, world.init)


def test_who_was_killed_by_somebody_else_is_let_out_to_end(world, brake):
    """The next time that it is held: a frozen process does not end by itself, and keeps its container from stopping."""
    process = world.hold()
    brake.hold(KEY, world.init, [process.pid])
    world.killed(process)
    brake.hold(KEY, world.init, [])
    assert world.gone(process)
