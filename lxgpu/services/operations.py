"""The journal at work: run an operation's idempotent steps, wait between them, undo, resume.

A step is entered in the journal before it is taken, so that after a crash the next command or tick takes it again;
every step looks first and does only what is missing. A step that must wait (a grace, a fence) gives a `Wait` back
instead of sleeping: the lock is let go, and whoever comes after the time takes the step again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Instance, Sighting
from lxgpu.model.operation import Operation, OperationState
from lxgpu.services.instances import sighting

if TYPE_CHECKING:
    from lxgpu.ports import Tx
    from lxgpu.services.fence import Look
    from lxgpu.services.site import Site

POLL_S = 0.05
LONGEST_POLL_S = 1.0
SLACK = 0.1
"""How soon a waiting step is looked at again by a command that waits for its end: later by a tenth of the wait so far,
up to a second."""
LOCK_WAIT_S = 30.0
FRESH_S = 0.1
"""How old a look at the instance may be by the time its lock is held; LXD's ETag guards the rest."""


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
        """The host's cards, asked for once: an operation in hand lasts seconds, a card's address a boot."""
        if self._gpus is None:
            self._gpus = self.site.engine.gpus()
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


def carry_out(
    site: Site,
    recipe: Recipe,
    name: str,
    begin: Callable[[], str | None],
    *,
    gpus: tuple[Gpu, ...] | None = None,
    left: Sighting | None = None,
) -> Operation | None:
    """Begin an operation on an instance and take it to its end, under the instance's lock from the start.

    `begin` writes the operation and gives its id, or None when there is nothing to do. With the lock held before
    anything is written, no other command can take a fresh operation for an abandoned one. `gpus` are the host's cards
    and `left` is the instance with its ETag, where the caller has just looked.

    Raises the error that made it fail, after it was undone; `conflict` when another process works on the instance.
    """
    asked = site.clock.monotonic()
    with _locked(site, name):
        if site.clock.monotonic() - asked > FRESH_S:
            left = None  # another command had it in hand meanwhile
        identifier = begin()
        if identifier is None:
            return None
        operation = _advance(site, recipe, identifier, gpus=gpus, left=left)
    return finish(site, recipe, identifier) if operation.live else operation


def finish(site: Site, recipe: Recipe, identifier: str) -> Operation:
    """Take an operation that was begun earlier to its end, waiting where its steps wait.

    The longer it takes, the rarer it is looked at: a look at a card's holders holds their container still for a moment.
    """
    begun = site.clock.monotonic()
    while True:
        operation = _known(site, identifier)
        with _locked(site, operation.instance):
            operation = _advance(site, recipe, identifier)
        if not operation.live:
            return operation
        waited = site.clock.monotonic() - begun
        site.clock.sleep(min(POLL_S + waited * SLACK, LONGEST_POLL_S))


def advance(site: Site, recipe: Recipe, identifier: str) -> Operation | None:
    """Take the steps that can be taken now, waiting for nothing; None when another process has the instance in hand."""
    operation = _known(site, identifier)
    with site.locks.hold(operation.instance, wait_s=0) as held:
        return _advance(site, recipe, identifier) if held else None


@contextmanager
def _locked(site: Site, name: str) -> Iterator[None]:
    with site.locks.hold(name, wait_s=LOCK_WAIT_S) as held:
        if not held:
            raise LxgpuError(
                "conflict",
                f"another lxgpu is at work on {name}",
                why=f"it has not let go for {LOCK_WAIT_S:.0f} s",
                fix="wait for it to end; `lxgpu history` shows what it does",
            )
        yield


def _advance(
    site: Site,
    recipe: Recipe,
    identifier: str,
    *,
    gpus: tuple[Gpu, ...] | None = None,
    left: Sighting | None = None,
) -> Operation:
    """Take the steps that can be taken now, under the lock. The operation given back lives on if it waits."""
    operation = _known(site, identifier)
    if not operation.live:
        return operation
    work = Work(site=site, operation=operation, _gpus=gpus, left=left)
    if operation.state is OperationState.OPEN:
        return _forward(work, recipe)
    _back(work, recipe)
    return work.operation


def _forward(work: Work, recipe: Recipe) -> Operation:
    try:
        if _take(work, recipe.steps):
            _close(work, OperationState.DONE)
    except (LxgpuError, KeyboardInterrupt) as error:
        if not recipe.undo or recipe.steps[work.operation.position].stands:
            raise
        work.forget_last()
        brief = error.brief if isinstance(error, LxgpuError) else "interrupted"
        work.site.say(f"undoing {recipe.kind}: {brief}")
        _enter(work, replace(work.operation, state=OperationState.UNDOING, position=0, step="", error=brief))
        _back(work, recipe)
        raise
    return work.operation


def _back(work: Work, recipe: Recipe) -> None:
    if _take(work, recipe.undo):
        _close(work, OperationState.UNDONE)


def _take(work: Work, steps: tuple[Step, ...]) -> bool:
    """Take the steps from where the operation stands; False when one of them waits."""
    for position in range(work.operation.position, len(steps)):
        step = steps[position]
        if work.operation.step != step.name or work.operation.position != position:
            entered = replace(work.operation, position=position, step=step.name, due_at=None)
            if (step.looks or not position) and not work.writes_last:
                work.operation = entered  # the journal says as much: the operation, or the step before
            else:
                _enter(work, entered)
            if step.tells:
                work.site.say(step.tells)
        if step.do(work) is not None:
            return False
    return True


def _enter(work: Work, operation: Operation) -> None:
    with work.site.write() as tx:
        work.write_last(tx)
        tx.put(operation)
    work.operation = operation


def _close(work: Work, state: OperationState) -> None:
    closed = replace(work.operation, state=state, step="", due_at=None, closed_at=work.site.clock.now())
    _enter(work, closed)


def _known(site: Site, identifier: str) -> Operation:
    operation = site.inventory.operation(identifier)
    if operation is None:
        raise LxgpuError("internal", f"the journal has no operation {identifier}", fix="lxgpu inventory verify")
    return operation
