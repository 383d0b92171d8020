"""What somebody asks for, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lxgpu.model.quota import NOTHING, Terms


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Cards wanted by an instance.

    `more` is how many on top of what it holds; `uuids` names exact ones (then `more` is their number);
    `model` is a shell-style pattern on the model's name, without regard to case.
    """

    instance: str
    owner: str
    more: int
    uuids: tuple[str, ...] = ()
    model: str = "*"
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A new container: who, what it is made from, its limits' flags, its cards and keys.

    `keys` are whole authorized_keys lines with their fingerprints. `lease_s` bounds the cards' lease, `expires` is
    when the container is suspended.
    """

    gpus: GpuRequest
    profile: str = "base"
    image: str = ""
    flags: Terms = NOTHING
    keys: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    lease_s: int | None = None
    expires: datetime | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.gpus.instance

    @property
    def owner(self) -> str:
        """The person it is for."""
        return self.gpus.owner
