"""Cards divided into MIG slices in memory; what is divided is kept by a `FakeProbe`, whose samples tell of it."""

from __future__ import annotations

from collections.abc import Sequence

from fakes.probe import FakeProbe

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode
from lxgpu.model.slices import Slice, SliceKind

GIB = 2**30
A100 = (
    SliceKind("1g.5gb", 1, 1, (0, 1, 2, 3, 4, 5, 6), 5 * GIB),
    SliceKind("1g.10gb", 1, 2, (0, 2, 4, 6), 10 * GIB),
    SliceKind("2g.10gb", 2, 2, (0, 2, 4), 10 * GIB),
    SliceKind("3g.20gb", 3, 4, (0, 4), 20 * GIB),
    SliceKind("4g.20gb", 4, 4, (0,), 20 * GIB),
    SliceKind("7g.40gb", 7, 8, (0,), 40 * GIB),
)
CAPS = 511


class FakeSlicer:
    """`ports.Slicer` in memory: cards whose model has `A100` in its name can be divided.

    A GPU instance gets the lowest number that is free. What `fails` names (a verb, or `verb:late`, after it was done)
    raises that once; slices of cards in `busy` cannot be taken away.
    """

    def __init__(self, probe: FakeProbe) -> None:
        self.probe = probe
        self.fails: dict[str, BaseException] = {}
        self.busy: set[str] = set()
        self.asked: list[str] = []

    def offered(self, card: str) -> tuple[SliceKind, ...]:
        """The profiles of an A100; another card has none."""
        found = next((gpu for gpu in self.probe.gpus() if gpu.uuid == card), None)
        return A100 if found is not None and "A100" in found.model else ()

    def make(self, card: str, wanted: Sequence[tuple[str, int]]) -> tuple[Slice, ...]:
        """Have the slices; those that are there as wanted stay."""
        self._begin("make")
        there = {(one.profile, one.start): one for one in self.probe.sliced.get(card, ())}
        self._refuse_busy(card, gone=set(there) - set(wanted))
        kept = {key: one for key, one in there.items() if key in set(wanted)}
        for profile, start in wanted:
            if (profile, start) not in kept:
                used = {one.instance for one in kept.values()}
                number = next(number for number in range(1, 15) if number not in used)
                kept[profile, start] = self.slice_of(card, profile, start, number)
        self.probe.sliced[card] = tuple(kept[key] for key in wanted)
        self._end("make")
        return self.probe.sliced[card]

    def unmake(self, card: str) -> None:
        """No slices, and no MIG mode."""
        self._begin("unmake")
        self._refuse_busy(card, gone={(one.profile, one.start) for one in self.probe.sliced.get(card, ())})
        self.probe.sliced.pop(card, None)
        self._end("unmake")

    def slice_of(self, card: str, profile: str, start: int, number: int) -> Slice:
        """A slice as it is made under a number."""
        base = 100 * int(card[4:12], 16) + 10 * number
        nodes = tuple(DeviceNode(f"nvidia-caps/nvidia-cap{minor}", CAPS, minor) for minor in (base, base + 1))
        memory = next(kind.memory_bytes for kind in A100 if kind.profile == profile)
        return Slice(profile, f"MIG-{card[4:12]}-{profile}-{start}", start, number, 0, nodes, memory)

    def _refuse_busy(self, card: str, gone: set[tuple[str, int]]) -> None:
        if gone and card in self.busy:
            raise LxgpuError("conflict", f"{card} is in use, so its MIG slices cannot be changed")

    def _begin(self, verb: str) -> None:
        self.asked.append(verb)
        if verb in self.fails:
            raise self.fails.pop(verb)

    def _end(self, verb: str) -> None:
        if f"{verb}:late" in self.fails:
            raise self.fails.pop(f"{verb}:late")
