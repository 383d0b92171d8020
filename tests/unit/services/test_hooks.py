"""The person's own scripts run when cards come and go, and nothing that they do or leave out holds anything up."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.engine_core import File
from fakes.faults import KilledError
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.operation import Operation
from lxgpu.model.request import GpuRequest
from lxgpu.ports import Ran
from lxgpu.services import hooks, lending
from lxgpu.services.hooks import AFTER_ATTACH, BEFORE_RELEASE, WAIT_S
from lxgpu.services.lending import RELEASE
from lxgpu.services.operations import finish
from lxgpu.services.recipes import Wait, Work
from lxgpu.services.recover import recover
from lxgpu.services.site import Site

GPU = "GPU-00000001-1111-2222-3333-444444444444"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Alice has a card and both scripts."""
    site = make_site(tmp_path)
    newcomer(site, "alice", gpus=1)
    for hook in (BEFORE_RELEASE, AFTER_ATTACH):
        leave(site, f"/etc/lxgpu/hooks/{hook}", b"#!/bin/sh\n")
    site.engine.ran.clear()
    return site


def leave(site: Site, path: str, content: bytes) -> None:
    """A file inside alice's container."""
    site.engine.machines["default", "alice"].files[path] = File(content, 0o755, 0, 0)


def work(site: Site, **args: object) -> Work:
    """A taking of alice's card, for bob's sake unless it is said otherwise."""
    args = {"slots": [GPU], "rule": "priority", **args}
    operation = Operation("op1", "release", "alice", site.clock.now(), "root", args=args)
    with site.write() as tx:
        tx.put(operation)
    return Work(site, operation)


def before(site: Site, taking: Work) -> Wait | None:
    """The moment before TERM."""
    return hooks.before_release(taking, site.engine.init("alice"))


def outcomes(site: Site) -> list[tuple[str, str]]:
    """What the history says of hooks, newest first."""
    events = site.inventory.events(subject="alice", limit=50)
    return [(event.rule, str(event.detail["outcome"])) for event in events if event.kind == "hook"]


def test_a_taking_waits_for_the_script_until_it_has_ended(site):
    """It is started once, knows the card and the reason, and is waited for while it runs."""
    taking, begun = work(site), site.clock.now()
    assert before(site, taking) == before(site, taking)
    ((name, argv),) = site.engine.ran
    assert (name, argv[0]) == ("alice", "sh")
    assert argv[4:] == ("/etc/lxgpu/hooks/before-release", "alice", "30", "/run/lxgpu/hooks/op1", "/home/alice")
    leave(site, "/run/lxgpu/hooks/op1", b"0\n")
    assert before(site, taking) is None
    assert site.clock.now() == begun
    assert outcomes(site) == [(BEFORE_RELEASE, "started")]


def test_a_script_that_hangs_is_waited_for_a_bounded_time(site):
    """And then the taking goes on."""
    taking, begun = work(site), site.clock.now()
    assert before(site, taking) is not None
    site.clock.sleep(WAIT_S - 0.1)
    assert before(site, taking) is not None
    site.clock.sleep(0.1)
    assert before(site, taking) is None
    assert (site.clock.now() - begun).total_seconds() == WAIT_S


def test_who_goes_on_after_a_crash_does_not_start_it_again(site):
    """The journal knows that it was begun."""
    before(site, work(site))
    again = Work(site, site.inventory.operation("op1"))
    assert before(site, again) is not None
    assert len(site.engine.ran) == 1


def test_what_the_owner_gives_back_asks_no_script(site):
    """`release` by hand is the owner's own word."""
    assert before(site, work(site, rule="")) is None
    assert site.engine.ran == []


def test_who_has_no_script_waits_for_nothing(site):
    """No program is run inside, and nothing is written."""
    site.engine.machines["default", "alice"].files.clear()
    assert before(site, work(site)) is None
    hooks.after_attach(work(site), site.engine.init("alice"), [GPU])
    assert (site.engine.ran, outcomes(site)) == ([], [])


@pytest.mark.parametrize("trouble", ["frozen", "stopped", "no process left", "not executable", "gone meanwhile"])
def test_trouble_is_a_line_of_history_and_no_more(site, trouble):
    """Nothing is run in a container that cannot run it, and nobody waits."""
    init, want = site.engine.init("alice"), "not run: "
    match trouble:
        case "frozen":
            site.engine.freeze("alice")
            want += "the container is frozen or stopped"
        case "stopped":
            site.engine.stop("alice", timeout_s=0, force=True)
            init = None
        case "no process left":
            site.engine.exhausted.add("alice")
        case "not executable":
            site.engine.programs["sh"] = lambda _argv, _stdin: Ran(3, "it is no program that may be run (chmod +x)\n")
            want += "it is no program that may be run (chmod +x)"
        case "gone meanwhile":
            init = 4_000_000
    taking = work(site)
    assert hooks.before_release(taking, init) is None
    assert hooks.before_release(taking, init) is None
    hooks.after_attach(taking, init, [GPU])
    if init is None:
        assert outcomes(site) == []
    else:
        assert [rule for rule, _ in outcomes(site)] == [AFTER_ATTACH, BEFORE_RELEASE]
        assert all(text.startswith(want) for _, text in outcomes(site))


def test_a_container_that_cannot_be_looked_into_any_more_is_not_waited_for(site):
    """It stopped while its script ran."""
    taking = work(site)
    assert before(site, taking) is not None
    assert hooks.before_release(taking, 4_000_000) is None
    with pytest.raises(LxgpuError):
        site.probe.read_file(4_000_000, "/x", most=1)


def test_an_attach_runs_the_script_and_stands_whatever_becomes_of_it(site):
    """One more card: the script is started when it opens; one that cannot be started undoes nothing."""
    site.engine.programs["sh"] = lambda _argv, _stdin: Ran(1, "no\n")
    attach(site, 2)
    assert [row.state.value for row in site.inventory.read().held_by("alice")] == ["active", "active"]
    assert outcomes(site) == [(AFTER_ATTACH, "not run: no")]
    ((_, argv),) = site.engine.ran
    assert argv[4] == "/etc/lxgpu/hooks/after-attach"


def states(site: Site) -> list[str]:
    """Of the cards that the inventory gives alice."""
    return [row.state.value for row in site.inventory.read().held_by("alice")]


def test_the_script_finds_the_cards_held(site):
    """`gpu` in the script shows what has come as one's own."""
    found: list[list[str]] = []

    def script(_argv, _stdin):
        found.append(states(site))
        return Ran(0, "")

    site.engine.programs["sh"] = script
    attach(site, 2)
    assert found == [["active", "active"]]


@pytest.mark.parametrize("end", [KeyboardInterrupt, KilledError])
def test_cut_short_while_the_script_is_started_the_cards_stay_and_it_is_not_started_again(site, end):
    """Ctrl-C or a crash: the attach stands, and the next command only closes it."""
    begun: list[int] = []

    def script(_argv, _stdin):
        begun.append(1)
        raise end

    site.engine.programs["sh"] = script
    with pytest.raises(end):
        attach(site, 2)
    assert states(site) == ["active", "active"]
    recover(site)
    assert (states(site), len(begun)) == (["active", "active"], 1)
    assert not [row for row in site.inventory.read().operations if row.live]


def test_a_full_disk_while_the_script_is_told_undoes_nothing(site):
    """What can be written no more by then is said; the cards are held."""
    write = site.inventory.write

    def full(**how):
        if [row for row in site.inventory.read().operations if row.step == "tell" and "hook_begun" not in row.args]:
            raise LxgpuError("inventory_storage", "no room")
        return write(**how)

    site.inventory.write = full
    with pytest.raises(LxgpuError, match="no room"):
        attach(site, 2)
    assert states(site) == ["active", "active"]
    site.inventory.write = write
    recover(site)
    assert states(site) == ["active", "active"]
    assert not [row for row in site.inventory.read().operations if row.live]


def test_a_taking_asks_the_script_before_term_and_goes_on(site):
    """The whole way: rule back, script, TERM; the script hangs, and the card is free all the same."""
    (row,) = site.inventory.read().held_by("alice")
    card = next(card for card in site.engine.cards if card.uuid == row.slot.gpu)
    process = site.probe.run(site.engine.init("alice"), card.nodes)
    taking = work(site, term_wait_s=1, fence_timeout_s=5)
    with site.write() as tx:
        tx.put(replace(row, state=AssignmentState.RELEASING))
    begun = site.clock.now()
    finish(site, RELEASE, taking.operation.id)
    assert not site.inventory.read().held_by("alice")
    assert [(one.pid, number) for one, number in site.probe.signals] == [(process.pid, signal.SIGTERM)]
    assert (site.clock.now() - begun).total_seconds() >= WAIT_S


def attach(site: Site, number: int) -> None:
    """`lxgpu attach alice --gpus N`."""
    request = GpuRequest(instance="alice", owner="", more=0)
    lending.attach(site, "alice", number=number, more=False, request=request, lease_s=None)


def kept(home: Path, printed: bytes) -> bytes:
    """What the log holds after a script has printed something; all of it was read."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LXGPU_HOOK": BEFORE_RELEASE, "LXGPU_REASON": "priority"}
    ran = subprocess.run(
        ["sh", "-c", hooks.KEEP], input=printed, env=env, stdout=subprocess.DEVNULL, check=False, timeout=30
    )
    assert ran.returncode == 0
    log = home / hooks.LOG
    return log.read_bytes() if log.is_file() else b""


def test_what_a_script_prints_is_kept_where_the_person_reads_it(tmp_path):
    """With the time and the reason, theirs alone, the newest last, and never without a bound."""
    first = kept(tmp_path, b"saved\nended with status 0\n")
    assert first.startswith(b"=== 20")
    assert b" before-release: priority\nsaved\nended with status 0\n" in first
    assert (tmp_path / hooks.LOG).stat().st_mode & 0o77 == 0
    assert kept(tmp_path, b"again\n").endswith(b"again\n")
    for _ in range(4):
        assert len(kept(tmp_path, b"x" * 300_000)) < 140_000


def test_a_script_ends_for_no_want_of_a_reader(tmp_path):
    """The home takes nothing: what is printed is read all the same."""
    (tmp_path / ".local").write_text("no folder")
    assert kept(tmp_path, b"y" * 300_000) == b""
