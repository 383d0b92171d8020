"""What operations are made of: recipes of idempotent steps, and what a step has in hand while it is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Instance, Sighting
from lxgpu.model.layout import divide
from lxgpu.model.operation import Operation
from lxgpu.model.slices import made_here
from lxgpu.services.instances import sighting

if TYPE_CHECKING:
    from lxgpu.ports import Tx
    from lxgpu.services.fence import Look
    from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Wait:
    """A step is not done yet; it wants to be taken again, and gives up by itself at `until`."""

    until: datetime


@dataclass(slots=True)
class Work:
    """An operation in the hand of one process."""

    site: Site
    operation: Operation
    _gpus: tuple[Gpu, ...] | None = None
    left: Sighting | None = None
    """What the step before has just seen of the instance; a step that waits leaves nothing."""
    calm: bool = False
    """Whether a step before has just seen that nobody in the instance holds what is being taken."""
    proof: Look | None = None
    """The fence's look that the step before has just made."""
    _last: list[Callable[[Tx], None]] = field(default_factory=list)

    def at_last(self, write: Callable[[Tx], None]) -> None:
        """Let a step's last word be written in the same transaction that enters the next step, or closes the operation.

        It is on the disk before anything else is done.
        """
        self._last.append(write)

    @property
    def writes_last(self) -> bool:
        """Whether anything is left to be written."""
        return bool(self._last)

    def forget_last(self) -> None:
        """The step was cut short: its last word does not count."""
        self._last = []

    def write_last(self, tx: Tx) -> None:
        """Write what the step in hand left to be written."""
        waiting, self._last = self._last, []
        for write in waiting:
            write(tx)

    def glance(self) -> Sighting:
        """The instance with its state: as the step before left it a moment ago, once, else looked at now."""
        seen, self.left = self.left, None
        return seen or sighting(self.site, self.name)

    def gpus(self) -> tuple[Gpu, ...]:
        """What the host lends, asked for once: an operation in hand lasts seconds, a card's address a boot."""
        if self._gpus is None:
            cards = self.site.inventory.read().cards
            layouts = {card.uuid: card.layout for card in cards}
            made = made_here(cards, self.site.probe.boot_id()) if any(card.made for card in cards) else {}
            self._gpus = divide(self.site.engine.gpus(), layouts, made)
        return self._gpus

    @property
    def name(self) -> str:
        """The instance the operation is about."""
        return self.operation.instance

    def instance(self) -> Instance:
        """The instance's row as it is now."""
        row = self.site.inventory.read().instance(self.name)
        if row is None:
            raise LxgpuError("not_found", f"the inventory has no instance {self.name}", fix="lxgpu ls")
        return row

    def text(self, key: str) -> str:
        """A text argument of the operation, empty when it has none."""
        return str(self.operation.args.get(key, ""))

    def flag(self, key: str) -> bool:
        """A yes-or-no argument of the operation."""
        return bool(self.operation.args.get(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list argument of the operation."""
        value = self.operation.args.get(key, ())
        return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()

    def seconds(self, key: str) -> float:
        """A duration argument of the operation in seconds, 0 when it has none."""
        value = self.operation.args.get(key, 0)
        return float(value) if isinstance(value, (int, float)) else 0.0

    def note(self, **values: object) -> None:
        """Remember something for the later steps, also across a crash."""
        self._save(args={**self.operation.args, **values})

    def leave(self, **values: object) -> None:
        """As `note`, written with the entry of the next step: for a step that may as well be taken again."""
        self.operation = replace(self.operation, args={**self.operation.args, **values})

    def deadline(self, seconds: float) -> datetime:
        """When the step in hand gives up: fixed the first time it asks."""
        if self.operation.due_at is None:
            self._save(due_at=self.site.clock.now() + timedelta(seconds=seconds))
        assert self.operation.due_at is not None  # noqa: S101 - just saved
        return self.operation.due_at

    def mark(self) -> None:
        """Enter a step that looks in the journal, since it is going to write to LXD or the host after all."""
        self._save()

    def _save(self, *, args: Mapping[str, object] | None = None, due_at: datetime | None = None) -> None:
        changed = replace(
            self.operation,
            args=self.operation.args if args is None else args,
            due_at=self.operation.due_at if due_at is None else due_at,
        )
        with self.site.write() as tx:
            tx.put(changed)
        self.operation = changed


Action = Callable[[Work], "Wait | None"]


@dataclass(frozen=True, slots=True)
class Step:
    """One idempotent step: its name in the journal, what it tells people, what it does.

    One that only `looks`, and writes nothing outside of the inventory, is entered in the journal no sooner than it
    waits or marks itself: after a crash the step before it is taken again, and finds nothing left to do. From a step on
    where the operation `stands` nothing undoes it any more: what cuts that step short leaves it to be taken again.
    """

    name: str
    tells: str
    do: Action
    looks: bool = False
    stands: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps of a kind of operation, and those that undo it. Without `undo` a failure leaves it open."""

    kind: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...] = ()
