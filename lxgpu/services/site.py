"""Everything a use case works with, in one value; wiring.py makes the real one, tests make one of fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from lxgpu.config.profiles import Profile
from lxgpu.config.settings import Settings
from lxgpu.model.quota import Policy
from lxgpu.ports import (
    Board,
    Brake,
    Clock,
    Engine,
    HostProbe,
    Inventory,
    KernelLog,
    Locks,
    Login,
    Notifier,
    Parker,
    Progress,
    Registries,
    Slicer,
    Texts,
    Tx,
)
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.useline import UseLines
from lxgpu.services.watch import Watch


@dataclass(frozen=True, slots=True)
class Site:
    """One host with its engine, under one inventory and one policy.

    `policy`, `profile`, `nvidia` (the configuration that mounts the driver's libraries), `guest` (a container's folder
    on this host), `unix_groups` and `host_uid` are called when needed, since they cost time. `actor` is who gave the
    command. `say` tells people about progress. `notify` reaches people outside, `board` is what they see inside.
    `parker` keeps programs alive while their cards are away, `brake` lets those of borrowers stand still.
    `slicer` divides cards into MIG slices.
    `kernel_log` tells of faults of cards, `watch` is what this process remembers of its looks at them.
    `cards` is what this process remembers of the host's cards, `use` of how busy they were.
    `registries` is how packages are got, for making templates.
    `alive` is called in the midst of long work, for who watches that it goes on.
    `watched`: the sentry watches the cards of this host, so that idle ones can be lent on.
    """

    host: str
    engine: Engine
    probe: HostProbe
    inventory: Inventory
    clock: Clock
    locks: Locks
    login: Login
    texts: Texts
    notify: Notifier
    board: Board
    parker: Parker
    brake: Brake
    slicer: Slicer
    kernel_log: KernelLog
    settings: Settings
    policy: Callable[[], Policy]
    profile: Callable[[str], Profile]
    nvidia: Callable[[Profile], Mapping[str, str]]
    guest: Callable[[str], str]
    unix_groups: Callable[[str], frozenset[str]]
    host_uid: Callable[[str], int | None]
    actor: str
    say: Progress
    watch: Watch = field(default_factory=Watch)
    cards: CardMemory = field(default_factory=CardMemory)
    use: UseLines = field(default_factory=UseLines)
    registries: Callable[[], Registries] = Registries
    alive: Callable[[], None] = lambda: None
    watched: bool = True

    def write(self, *, expected: int | None = None) -> AbstractContextManager[Tx]:
        """A write transaction of the inventory in the name of whoever gave the command."""
        return self.inventory.write(actor=self.actor, now=self.clock.now(), expected=expected)
