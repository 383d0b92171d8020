"""What divides cards into MIG slices: the fake, and the real driver on the lab's NVML library."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from fakes.engine import FakeEngine
from fakes.probe import FakeProbe, beside
from fakes.site import make_gpus
from fakes.slicer import FakeSlicer
from fakes.system import FakeClock
from nvml_library import Library

from lxgpu.drivers.mig import NvmlSlicer
from lxgpu.errors import LxgpuError
from lxgpu.lab.models import A100_40GB_SLICES
from lxgpu.lab.processes import started_at

CARDS = [replace(gpu, index=number) for number, gpu in enumerate(make_gpus(2))]
CARDS[0] = replace(CARDS[0], model="NVIDIA A100-SXM4-40GB")
CARD, PLAIN = CARDS[0].uuid, CARDS[1].uuid
THREE = (("3g.20gb", 4), ("2g.10gb", 2), ("2g.10gb", 0))


def kinds() -> list[str]:
    """What the library is told of the card that can be divided."""
    return [
        f"slice 0 {one.number} {one.profile} {one.slices} {one.multiprocessors} {one.memory_mib} {one.size}"
        f" {','.join(map(str, one.starts))} {one.name}"
        for one in A100_40GB_SLICES
    ]


@pytest.fixture(params=["fake", "real"])
def slicer(request, tmp_path, monkeypatch):
    """A host with a card that can be divided and one that cannot."""
    if request.param == "fake":
        engine = FakeEngine(CARDS)
        return FakeSlicer(FakeProbe(FakeClock(), lambda: CARDS, beside(engine)))
    library = Library(tmp_path, CARDS)
    library.write(kinds())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    proc = tmp_path / "proc"
    (proc / "driver/nvidia-caps").mkdir(parents=True)
    (proc / "devices").write_text("Character devices:\n  1 mem\n511 nvidia-caps\n\nBlock devices:\n")
    names = [f"gpu0/gi{number}" for number in range(8)]
    lines = [f"{name}/{kind} {100 + 2 * at + last}" for at, name in enumerate(names) for last, kind in enumerate(ENDS)]
    (proc / "driver/nvidia-caps/mig-minors").write_text("\n".join(lines))
    return NvmlSlicer(proc)


ENDS = ("access", "ci0/access")


def test_what_a_card_offers(slicer):
    """Profiles with their size, their places and their memory; a card without MIG offers none."""
    offered = {kind.profile: (kind.slices, kind.size, kind.starts) for kind in slicer.offered(CARD)}
    assert offered == {one.name: (one.slices, one.size, one.starts) for one in A100_40GB_SLICES}
    assert all(kind.memory_bytes for kind in slicer.offered(CARD))
    assert slicer.offered(PLAIN) == ()


def test_slices_are_made_as_wanted_and_stay(slicer):
    """In the order asked for, each with nodes of its own; asked for again, the same ones."""
    made = slicer.make(CARD, THREE)
    assert [(one.profile, one.start) for one in made] == list(THREE)
    assert len({node for one in made for node in one.nodes}) == 6
    assert all(node.path == f"nvidia-caps/nvidia-cap{node.minor}" for one in made for node in one.nodes)
    assert len({one.uuid for one in made}) == len({one.instance for one in made}) == 3
    assert slicer.make(CARD, THREE) == made


def test_only_what_is_not_wanted_goes(slicer):
    """The slice that stays keeps its identity and its nodes, whatever comes beside it."""
    first, second, _ = slicer.make(CARD, THREE)
    small = slicer.make(CARD, (("3g.20gb", 4), ("1g.5gb", 0), ("2g.10gb", 2)))
    assert (small[0], small[2]) == (first, second)
    assert small[1].profile == "1g.5gb"


def test_a_card_becomes_whole_and_can_be_divided_anew(slicer):
    """Nothing of the old layout is in the way, and a whole card may be made whole again."""
    slicer.make(CARD, THREE)
    slicer.unmake(CARD)
    slicer.unmake(CARD)
    (made,) = slicer.make(CARD, (("7g.40gb", 0),))
    assert made.profile == "7g.40gb"
    slicer.unmake(PLAIN)


def test_slices_in_use_are_not_taken_away(slicer, tmp_path):
    """Error `conflict`, and everything is as it was."""
    made = slicer.make(CARD, THREE)
    if isinstance(slicer, FakeSlicer):
        slicer.busy.add(CARD)
    else:
        Library(tmp_path, CARDS).write([*kinds(), f"proc 0 {os.getpid()} {started_at(os.getpid())} 100 C 5"])
    with pytest.raises(LxgpuError) as refused:
        slicer.unmake(CARD)
    assert refused.value.code == "conflict"
    assert refused.value.fix or isinstance(slicer, FakeSlicer)
    assert slicer.make(CARD, THREE) == made


def test_a_library_that_is_not_there_and_one_that_hangs_are_errors(tmp_path, monkeypatch):
    """`unavailable`, with what NVML said."""
    with pytest.raises(LxgpuError) as refused:
        NvmlSlicer(tmp_path).offered(CARD)
    assert refused.value.code == "unavailable"
    library = Library(tmp_path, CARDS)
    library.write(kinds(), faults={CARD: "hang"})
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(LxgpuError, match="could not be divided") as refused:
        NvmlSlicer(tmp_path, timeout_s=0.5).offered(CARD)
    assert "did not answer" in refused.value.why[0]


def test_a_driver_without_capabilities_is_an_error(tmp_path, monkeypatch):
    """Nothing is divided whose slices nobody could reach; what is missing is named."""
    library = Library(tmp_path, CARDS)
    library.write(kinds())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(LxgpuError, match="nodes of MIG slices") as refused:
        NvmlSlicer(tmp_path).make(CARD, THREE)
    assert "devices" in refused.value.why[0]
