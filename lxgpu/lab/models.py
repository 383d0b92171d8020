"""The cards that a lab can pretend to have."""

from __future__ import annotations

from dataclasses import dataclass

from lxgpu.errors import LxgpuError


@dataclass(frozen=True, slots=True)
class SliceKind:
    """A kind of MIG slice that a card can have.

    `number` is NVML's for such slices of any card, `profile` this card's id of it; `starts` are the memory slices (of
    eight) at which one may begin, and it takes `size` of them.
    """

    name: str
    number: int
    profile: int
    slices: int
    multiprocessors: int
    memory_mib: int
    size: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of card, as the vendor's tools show it."""

    name: str
    brand: str
    memory_mib: int
    pci_device: int
    architecture: str
    power_limit_w: int
    slices: tuple[SliceKind, ...] = ()


# NVIDIA's MIG user guide, "A100 MIG profiles" and what `nvidia-smi mig -lgip` and `-lgipp` print there; media
# extensions (+me) are left out. No such card was at hand.
A100_40GB_SLICES = (
    SliceKind("1g.5gb", 0, 19, 1, 14, 4864, 1, (0, 1, 2, 3, 4, 5, 6)),
    SliceKind("1g.10gb", 9, 15, 1, 14, 9984, 2, (0, 2, 4, 6)),
    SliceKind("2g.10gb", 1, 14, 2, 28, 9984, 2, (0, 2, 4)),
    SliceKind("3g.20gb", 2, 9, 3, 42, 20096, 4, (0, 4)),
    SliceKind("4g.20gb", 3, 5, 4, 56, 20096, 4, (0,)),
    SliceKind("7g.40gb", 4, 0, 7, 98, 40448, 8, (0,)),
)

# What nvidia-smi prints for these cards; the memory is what NVML reports as total.
MODELS: dict[str, Model] = {
    "RTX 3090": Model("NVIDIA GeForce RTX 3090", "GeForce", 24576, 0x2204, "8.6", 350),
    "RTX 4090": Model("NVIDIA GeForce RTX 4090", "GeForce", 24564, 0x2684, "8.9", 450),
    "A100 40GB": Model("NVIDIA A100-SXM4-40GB", "Nvidia", 40960, 0x20B0, "8.0", 400, A100_40GB_SLICES),
    "A100 80GB": Model("NVIDIA A100-SXM4-80GB", "Nvidia", 81920, 0x20B2, "8.0", 400),
    "H100 80GB": Model("NVIDIA H100 80GB HBM3", "Nvidia", 81559, 0x2330, "9.0", 700),
    "T4": Model("Tesla T4", "Tesla", 15360, 0x1EB8, "7.5", 70),
}


def find_model(name: str) -> Model:
    """The model called `name`, by its short name or the vendor's, in any case.

    Raises:
        LxgpuError: `usage`, with the list of models, when there is none of that name.
    """
    wanted = name.casefold().strip()
    for short, model in MODELS.items():
        if wanted in (short.casefold(), model.name.casefold()):
            return model
    raise LxgpuError(
        "usage",
        f"the lab knows no card model {name!r}",
        why=f"it can pretend to have: {', '.join(MODELS)}",
        fix="take one of these for --model, for instance --model 'RTX 3090'",
    )
