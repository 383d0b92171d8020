"""MIG slices: what a card offers, where they find room on it, and what was made; pure.

A layout in slices is written `3g.20gb+2g.10gb+2g.10gb`. What was made of it is kept beside it with the boot of the
host: slices vanish when the host goes down, and a layout that is not made lends nothing.
Source: NVIDIA's MIG user guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lxgpu.model.assignment import Card
from lxgpu.model.gpu import COMPUTE_SLICES, PROFILE, DeviceNode


@dataclass(frozen=True, slots=True)
class SliceKind:
    """A profile that a card offers: its `slices` of compute, and the memory slices `starts` at which one may begin.

    It takes `size` slices of memory from there.
    """

    profile: str
    slices: int
    size: int
    starts: tuple[int, ...]
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice that was made: its UUID, the memory slice it begins at, and the nodes of its two capabilities.

    `instance` and `compute` are the numbers of its GPU instance and of its compute instance.
    """

    profile: str
    uuid: str
    start: int
    instance: int
    compute: int
    nodes: tuple[DeviceNode, ...]
    memory_bytes: int | None = None


def in_slices(layout: str) -> bool:
    """Whether a layout is one of MIG slices, not of time shares or of a whole card."""
    return "g." in layout


def profiles(layout: str) -> tuple[str, ...]:
    """The profiles of a layout in slices, in its order."""
    return tuple(re.findall(PROFILE, layout))


def slice_names(uuid: str, layout: str) -> tuple[str, ...]:
    """The slots of a layout in slices: `GPU-3f2a/1-3g.20gb` is the first."""
    return tuple(f"{uuid}/{number}-{profile}" for number, profile in enumerate(profiles(layout), start=1))


def placed(wanted: Sequence[str], offered: Collection[SliceKind]) -> tuple[int, ...] | None:
    """Where each of the wanted profiles begins on an empty card, always the same; None: they do not all fit.

    The last place that will do, as the driver chooses, so that small ones do not stand in the way of large ones.
    """
    kinds = {kind.profile: kind for kind in offered}
    if sum(kinds[name].slices for name in wanted) > COMPUTE_SLICES:
        return None
    return next(_places([kinds[name] for name in wanted], frozenset()), None)


def _places(kinds: Sequence[SliceKind], taken: frozenset[int]) -> Iterator[tuple[int, ...]]:
    if not kinds:
        yield ()
        return
    for start in sorted(kinds[0].starts, reverse=True):
        here = frozenset(range(start, start + kinds[0].size))
        if not here & taken:
            yield from ((start, *rest) for rest in _places(kinds[1:], taken | here))


def made_text(boot_id: str, slices: Iterable[Slice]) -> str:
    """What was made, as the inventory keeps it."""
    rows = [
        [one.profile, one.uuid, one.start, one.instance, one.compute, one.memory_bytes]
        + [[node.path, node.major, node.minor] for node in one.nodes]
        for one in slices
    ]
    return json.dumps({"boot": boot_id, "slices": rows}, separators=(",", ":"))


@lru_cache(maxsize=512)
def _read(made: str) -> tuple[str, tuple[Slice, ...]]:
    found = json.loads(made)
    return found["boot"], tuple(
        Slice(profile, uuid, start, instance, compute, tuple(DeviceNode(*node) for node in nodes), memory)
        for profile, uuid, start, instance, compute, memory, *nodes in found["slices"]
    )


PENDING = made_text("", ())
"""What is written before anything is made: whoever comes to know of it takes away what there may be."""


def slices_of(card: Card, boot_id: str) -> tuple[Slice, ...]:
    """The slices of a card in the order of its layout; none of it while they are not those of its layout and boot."""
    if not card.made or not in_slices(card.layout):
        return ()
    boot, slices = _read(card.made)
    fitting = boot == boot_id and tuple(one.profile for one in slices) == profiles(card.layout)
    return slices if fitting else ()


def made_here(cards: Iterable[Card], boot_id: str) -> Mapping[str, tuple[Slice, ...]]:
    """The slices there are, by the UUID of their card."""
    return {card.uuid: slices for card in cards if (slices := slices_of(card, boot_id))}


def unmade(card: Card, boot_id: str) -> bool:
    """Whether a card's slices are still to be made, or those of an earlier layout to be taken away."""
    return not slices_of(card, boot_id) if in_slices(card.layout) else bool(card.made)
