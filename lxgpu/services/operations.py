"""The journal at work: run an operation's idempotent steps, wait between them, undo, resume.

A step is entered in the journal before it is taken, so that after a crash the next command or tick takes it again;
every step looks first and does only what is missing. A step that must wait (a grace, a fence) gives a `Wait` back
instead of sleeping: the lock is let go, and whoever comes after the time takes the step again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Sighting
from lxgpu.model.operation import Operation, OperationState

if TYPE_CHECKING:
    from lxgpu.services.site import Site
from lxgpu.services.recipes import Recipe, Step, Work

POLL_S = 0.05
LONGEST_POLL_S = 1.0
SLACK = 0.1
"""How soon a waiting step is looked at again by a command that waits for its end: later by a tenth of the wait so far,
up to a second."""
LOCK_WAIT_S = 30.0
FRESH_S = 0.1
"""How old a look at the instance may be by the time its lock is held; LXD's ETag guards the rest."""


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
        if not _known(work.site, work.operation.id).live:  # its last write landed, and was interrupted after that
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
