"""The seam to what divides cards into MIG slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lxgpu.model.slices import Slice, SliceKind


class Slicer(Protocol):
    """Divides cards of this host into MIG slices.

    Errors of all: `unavailable` when NVML does not answer or refuses; `conflict` when the card, or a slice that would
    have to go, is in use.
    """

    def offered(self, card: str) -> tuple[SliceKind, ...]:
        """The profiles that a card offers, by its UUID; none when it has no MIG."""

    def make(self, card: str, wanted: Sequence[tuple[str, int]]) -> tuple[Slice, ...]:
        """Have a card in MIG mode with exactly these slices, each a profile and the memory slice it begins at.

        In their order. What is there already as it is wanted stays as it is.
        """

    def unmake(self, card: str) -> None:
        """Take all slices of a card away, and have it out of MIG mode."""
