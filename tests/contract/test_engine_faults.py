"""The faults of FakeEngine look to lxgpu as the real ones do: the caller is told one thing, the world is another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.engine import FakeEngine
from fakes.faults import Fault, KilledError, When

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.ports import Change, Engine

CARD = Gpu(uuid="GPU-1", pci="0000:11:00.0", model="X", host="h", nodes=(DeviceNode("nvidia0", 195, 0),))
ATTACH = Change(config={"user.a": "1"}, devices={"g": {"type": "gpu", "pci": CARD.pci}})


@pytest.fixture
def fake() -> FakeEngine:
    """One running instance `a` without a card; the writes so far are 2."""
    engine = FakeEngine([CARD])
    engine.create("a", source=f"image:{engine.images()[0].fingerprint}", change=Change(), profiles=["default"])
    engine.start("a")
    return engine


def told(call: Callable[[], object]) -> str:
    """The code of the error raised."""
    with pytest.raises(LxgpuError) as caught:
        call()
    return caught.value.code


def has_card(fake: FakeEngine) -> bool:
    """Whether the card is attached, in the record and inside alike."""
    recorded = "g" in fake.machines["default", "a"].devices
    assert recorded == bool(fake.nodes("a"))
    return recorded


@pytest.mark.parametrize(
    ("fault", "code", "applied"),
    [
        (Fault.APPLIED_ERROR, "engine", True),
        (Fault.ERROR, "engine", False),
        (Fault.LOST, "outcome_unknown", True),
        (Fault.HANG, "outcome_unknown", False),
        (Fault.STALE, "conflict", False),
        (Fault.DOWN, "unavailable", False),
        (Fault.LATE, "outcome_unknown", False),
    ],
)
def test_what_is_told_and_what_is_so(fake, fault, code, applied):
    """An error says nothing about the outcome."""
    fake.inject(fault, call="update", name="a")
    assert told(lambda: fake.update("a", ATTACH, etag=None)) == code
    assert has_card(fake) == applied


def test_a_late_write_lands_when_nobody_expects_it(fake):
    """A reading right after says "not applied", a later one "applied"."""
    fake.inject(Fault.LATE, call="update", after=3)
    assert told(lambda: fake.update("a", ATTACH, etag=None)) == "outcome_unknown"
    assert not fake.instance("a").devices
    fake.instances()
    assert fake.instance("a").devices
    assert has_card(fake)


def test_after_a_barrier_a_late_write_lands_no_more(fake):
    """The barrier's own mark makes its ETag stale."""
    fake.inject(Fault.LATE, call="update", after=3)
    assert told(lambda: fake.update("a", ATTACH, etag=None)) == "outcome_unknown"
    fake.barrier("a")
    assert not [fake.instance("a").devices for _ in range(5)][-1]


def test_a_barrier_waits_for_a_late_start(fake):
    """What no ETag guards is an operation under way, and the barrier waits for it."""
    fake.stop("a", timeout_s=1, force=True)
    fake.inject(Fault.LATE, call="start", after=100)
    assert told(lambda: fake.start("a")) == "outcome_unknown"
    fake.barrier("a")
    assert fake.init("a")


def test_a_daemon_that_is_down_comes_back(fake):
    """So many more calls fail, then all is as it was."""
    fake.inject(Fault.DOWN, call="update", after=2)
    codes = [told(lambda: fake.update("a", ATTACH, etag=None)) for _ in range(3)]
    assert codes == ["unavailable"] * 3
    fake.update("a", ATTACH, etag=None)


def test_half_an_attach_blocks_the_name_until_a_restart(fake):
    """Nodes inside without a device: seen by left_nodes, and in the way of the next attach."""
    fake.inject(Fault.HALF, call="update")
    assert told(lambda: fake.update("a", ATTACH, etag=None)) == "outcome_unknown"
    assert not fake.instance("a").devices
    assert fake.nodes("a") == set(CARD.nodes)
    assert fake.left_nodes("a")
    assert told(lambda: fake.update("a", ATTACH, etag=None)) == "engine"
    fake.stop("a", timeout_s=1, force=True)
    fake.start("a")
    fake.update("a", ATTACH, etag=None)
    assert has_card(fake)


@pytest.mark.parametrize(("when", "at_once", "in_the_end"), [("before", 0, 0), ("after", 1, 1), ("late", 0, 1)])
def test_a_kill_at_any_write(fake, when, at_once, in_the_end):
    """The process ends before, after, or with the write still on its way."""
    fake.kill(When(when), write=3)
    with pytest.raises(KilledError):
        fake.update("a", ATTACH, etag=None)
    assert has_card(fake) == bool(at_once)
    fake.instances()
    assert has_card(fake) == bool(in_the_end)


def test_a_hook_sees_every_write(fake):
    """So that a test can stop, look or kill around each of them."""
    seen: list[tuple[str, str, str]] = []
    fake.hook = lambda *moment: seen.append(moment)
    fake.update("a", ATTACH, etag=None)
    fake.instance("a")
    assert seen == [("before", "update", "a"), ("after", "update", "a")]


def test_strangers_are_seen_and_told_apart(fake):
    """Other projects' instances are in the list, and pass cards by a device without selector."""
    fake.add_stranger("their", project="other", devices={"gpu": {"type": "gpu"}}, running=True)
    (stranger,) = (seen for seen in fake.instances() if seen.project == "other")
    assert not stranger.ours
    assert fake.instance("their") is None


def test_the_fake_is_an_engine():
    """All of the port is there (mypy holds the signatures)."""
    engine: Engine = FakeEngine()
    wanted = {name for name in vars(Engine) if not name.startswith("_")}
    assert wanted <= set(dir(engine))
