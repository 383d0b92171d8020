"""One part of a tick that fails, in whatever way, is that part's own failure; a take-over ends the tick."""

from __future__ import annotations

import pytest
from dealings import one_held
from fakes.site import make_site, newcomer
from inventory_rows import operation

from lxgpu.errors import LxgpuError
from lxgpu.model.request import ReserveRequest
from lxgpu.services import carrying
from lxgpu.services.reserve import reserve
from lxgpu.services.tick import tick

FATAL = ["superseded", "other_inventory", "inventory_newer"]


@pytest.fixture
def site(tmp_path):
    """Alice holds the one card in a class that yields to bob's."""
    return one_held(tmp_path)


def failing(error):
    """A call that ends so, whatever it is called with."""

    def call(*_args, **_named):
        raise error

    return call


PARTS = {
    "boot": "note_boot",
    "health": "check_health",
    "watching": "take_samples",
    "drift": "begin_mending",
    "notices": "send_due",
    "promises": "mirror_promises",
    "runs": "end_abandoned",
    "banners": "refresh_banner",
}


@pytest.mark.parametrize("part", sorted(PARTS))
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), ZeroDivisionError("odd"), LxgpuError("unavailable", "it is away")]
)
def test_a_part_that_fails_is_named_and_the_rest_goes_on(site, part, error, monkeypatch):
    """A full disk under the kernel's log, a fault in the banner: bob's request is met in that tick all the same."""
    reserve(site, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=600), begin=False)
    with monkeypatch.context() as broken:
        broken.setattr(f"lxgpu.services.tick.{PARTS[part]}", failing(error))
        ticked = tick(site)
        troubles = ticked.troubles
        assert ticked.failed == (part,)
        said = error.brief if isinstance(error, LxgpuError) else f"a fault in lxgpu: {type(error).__name__}: {error}"
        assert f"{part}: {said}" in troubles
        assert [row.state.value for row in site.inventory.read().held_by("alice")] == ["warned"]
    assert tick(site).troubles == ()


def test_a_fault_in_one_operation_stops_no_other(site, monkeypatch):
    """It is named with its container, stays in the journal, and is taken up again."""
    with site.write() as tx:
        tx.put(operation("o1", kind="release", instance="alice"), operation("o2", kind="release", instance="bob"))
    real = carrying.advance

    def advance(at, recipe, identifier):
        if identifier == "o1":
            raise OSError(5, "Input/output error")
        return real(at, recipe, identifier)

    with monkeypatch.context() as broken:
        broken.setattr(carrying, "advance", advance)
        assert tick(site).troubles == ("release of alice: a fault in lxgpu: OSError: [Errno 5] Input/output error",)
    assert [row.id for row in site.inventory.read().operations if row.live] == ["o1"]
    tick(site)
    assert not [row.id for row in site.inventory.read().operations if row.live]


@pytest.mark.parametrize("code", FATAL)
@pytest.mark.parametrize("where", ["part", "operation"])
def test_after_a_take_over_the_tick_ends_itself(site, code, where, monkeypatch):
    """Each of the three ways to hear that this process must not change anything any more, wherever it is heard."""
    error = LxgpuError(code, "another inventory took over")
    if where == "part":
        monkeypatch.setattr("lxgpu.services.tick.check_health", failing(error))
    else:
        monkeypatch.setattr(carrying, "advance", failing(error))
        with site.write() as tx:
            tx.put(operation("o1", kind="release", instance="alice"))
    with pytest.raises(LxgpuError) as caught:
        tick(site)
    assert caught.value.code == code


@pytest.mark.parametrize("where", ["part", "operation"])
def test_an_interrupt_is_no_fault(site, where, monkeypatch):
    """Ctrl-C ends the command, wherever it comes."""
    if where == "part":
        monkeypatch.setattr("lxgpu.services.tick.check_health", failing(KeyboardInterrupt()))
    else:
        monkeypatch.setattr(carrying, "advance", failing(KeyboardInterrupt()))
        with site.write() as tx:
            tx.put(operation("o1", kind="release", instance="alice"))
    with pytest.raises(KeyboardInterrupt):
        tick(site)


def test_a_trouble_is_named_once_however_many_parts_meet_it(tmp_path):
    """No run directory: the clock is looked at twice in a tick, and neither can be noted."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "alice")
    site.settings.run_dir.parent.mkdir(parents=True, exist_ok=True)
    site.settings.run_dir.write_text("")
    ticked = tick(site)
    assert ticked.troubles
    assert len(set(ticked.troubles)) == len(ticked.troubles)
    assert not [text for text in ticked.troubles if "a fault in lxgpu" in text]


def test_banners_that_cannot_be_written_are_a_trouble_and_no_news_each_second(tmp_path):
    """Said when it begins and when it is over, as all that fails is."""
    site = make_site(tmp_path, gpus=1)
    for name in ("alice", "ben"):
        newcomer(site, name)
    site.board.full |= {"alice", "ben"}
    site.board.files.clear()
    before = list(site.say.lines)
    for _ in range(5):
        ticked = tick(site)
        assert sorted(text.split(":")[0] for text in ticked.troubles) == [
            "the login banner of alice is as it was",
            "the login banner of ben is as it was",
        ]
    assert site.say.lines == before
    site.board.full.clear()
    assert tick(site).troubles == ()
