"""`lxgpu run`: a throw-away container for one program, whose end is its end, whatever that is.

Whoever made it holds a lock of the kernel's for as long as it is wanted. Who dies lets it go, by `kill -9` and by a
boot too, and the next tick, or command, takes the container away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.names import person_fault
from lxgpu.model.operation import OperationState
from lxgpu.model.request import CreateRequest
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Progress, Relay, Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided, make_way
from lxgpu.services.ending import open_end
from lxgpu.services.leaving import DELETE
from lxgpu.services.operations import LOCK_WAIT_S, finish
from lxgpu.services.provision import create
from lxgpu.services.running import RUN
from lxgpu.services.runprogram import WORK, Program, hand_in, hand_out, run_inside
from lxgpu.services.site import Site

GONE = "its runner has gone"
_RECIPES = {recipe.kind: recipe for recipe in (RUN, DELETE)}


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done inside: the words of the program, its environment, and how long it may take.

    `copy` is a folder of this host that is handed in as /work, where the program then starts; `fetch` are paths below
    that are handed back into it afterwards.
    """

    words: tuple[str, ...]
    limit_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    copy: str = ""
    fetch: tuple[str, ...] = ()


def keeper(name: str) -> str:
    """The lock of whoever keeps a throw-away container; no instance can have this name."""
    return f"@{name}"


def whose(site: Site, given: str, caller: str) -> str:
    """Whose quota a run is on: the person named, else the caller, if anything is known of them.

    Raises:
        LxgpuError: `usage`: a number for life is for no account that only happens to call; `bad_name`.
    """
    if given:
        return given
    if not person_fault(caller):
        groups = observe.groups_of(site.policy(), site.unix_groups, [caller])
        named = caller in site.policy().users or site.policy().groups_of(caller, groups.get(caller, frozenset()))
        if named or site.inventory.read().person(caller) is not None:
            return caller
    raise LxgpuError(
        "usage",
        "say whose quota it is on",
        why=f"neither the policy nor the inventory knows a person {caller}",
        fix="lxgpu run --owner NAME …",
    )


def longest_s(site: Site, owner: str) -> int:
    """How long a run lasts at most if nothing is said: as a lease."""
    policy = site.policy()
    groups = observe.groups_of(policy, site.unix_groups, [owner]).get(owner, frozenset())
    return policy.entitlement(owner, policy.groups_of(owner, groups), site.clock.now()).lease_s


def run(site: Site, request: CreateRequest, job: Job, relay: Relay, warn: Progress) -> int:
    """Make the container, run the program in it, take it away again; the program's exit status.

    A signal that asks to end is the program's; one that comes before there is a program undoes what was begun. What
    cannot be taken away now is left to the next tick; `warn` hears of that, and of what was not handed back.

    Errors: those of `create`, and of LXD's while the program runs.
    """
    name = request.name
    with site.locks.hold(keeper(name), wait_s=0, once=True) as mine:
        if not mine:
            raise LxgpuError("conflict", f"a run has the name {name} already", fix="repeat the command")
        try:
            with relay.breaking():
                create(site, request)
            status = _inside(site, name, job, relay, warn)
            _note(site, name, job, status)
        except (Exception, KeyboardInterrupt):
            _clear(site, name, warn)
            raise
        _clear(site, name, warn)
        return status


def _inside(site: Site, name: str, job: Job, relay: Relay, warn: Progress) -> int:
    """The program with what is handed in and out; a status other than 0 of the handing in is all there is."""
    if job.copy:
        status = hand_in(site, name, job.copy, relay)
        if status or relay.heard:  # a signal in its last moment ended nothing, and was meant for all of it
            return status or 128 + relay.heard[0]
    program = Program(job.words, environment=job.environment, folder=WORK if job.copy else "/root", limit_s=job.limit_s)
    status = run_inside(site, name, program, relay)
    for path in job.fetch:
        trouble = hand_out(site, name, path, job.copy, relay)
        if trouble:
            warn(trouble)
    return status


def _note(site: Site, name: str, job: Job, status: int) -> None:
    """The history has the program's name; its words may hold secrets."""
    with site.write() as tx:
        tx.event("ran", name, detail={"program": job.words[0].rpartition("/")[2], "status": status})


def _clear(site: Site, name: str, warn: Progress) -> None:
    """Take the container away, if it is there; what fails is said."""
    try:
        with site.locks.hold(name, wait_s=LOCK_WAIT_S) as mine:
            begun = _begin_end(site, name, why="interrupted") if mine else None
        if not mine:
            warn(f"{name} is still there, and the next tick takes it away: another command has it in hand")
        if begun is not None:
            kind, identifier = begun
            finish(site, _RECIPES[kind], identifier)
        with site.locks.hold(name, wait_s=0, once=True):
            pass  # nobody has the name again, and of thousands of runs nothing is to stay
    except LxgpuError as error:
        warn(f"{name} is still there, and the next tick takes it away: {error.brief}")


def end_abandoned(site: Site) -> int:
    """Begin the end of each throw-away container whose runner has gone; gives how many. The journal does the rest."""
    kept = [
        row for row in site.inventory.read().instances if row.throw_away and row.state is not InstanceState.DELETING
    ]
    ended, missed = 0, None
    for row in kept:
        try:
            ended += _abandoned(site, row)
        except LxgpuError as error:
            missed = missed or error
    if missed is not None:
        raise missed
    return ended


def _abandoned(site: Site, row: Instance) -> bool:
    with site.locks.hold(keeper(row.name), wait_s=0, once=True) as gone:
        if not gone:
            return False
        with site.locks.hold(row.name, wait_s=0) as free:
            return free and _begin_end(site, row.name, why=GONE) is not None


def _begin_end(site: Site, name: str, *, why: str) -> tuple[str, str] | None:
    """Write that it ends, under its lock: kind and id of the operation that does it; None when it is not there."""
    if site.inventory.read().instance(name) is None:
        return None
    return decided(site, observe.snapshot(site), partial(_write_end, site, name, why))


def _write_end(site: Site, name: str, why: str, tx: Tx, now: Snapshot) -> tuple[str, str] | None:
    row = now.records.instance(name)
    if row is None:
        return None
    live = next((one for one in now.records.operations if one.live and one.instance == name), None)
    if live is not None and live.kind == RUN.kind:  # it is not made yet, and not made any more
        if live.state is OperationState.OPEN:
            tx.put(replace(live, state=OperationState.UNDOING, position=0, step="", due_at=None, error=why))
        return live.kind, live.id
    if live is not None and live.kind == DELETE.kind:
        return live.kind, live.id
    make_way(tx, now, name, deletion=True)
    if why == GONE:
        tx.event("abandoned", name, rule="run", detail={"why": why})
    args = {"purge": True}
    return DELETE.kind, open_end(site, tx, now, name, kind=DELETE.kind, state=InstanceState.DELETING, args=args)
