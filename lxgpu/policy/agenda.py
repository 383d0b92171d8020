"""What is to be done now: one pure decision for the whole host, the same for the daemon, a command and a rehearsal."""

from __future__ import annotations

from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.claims import offer_gaps, settle_claims
from lxgpu.policy.closing import close_over, give_up_starts
from lxgpu.policy.desk import Agenda, Desk
from lxgpu.policy.fewer import let_go
from lxgpu.policy.handing import hand_over
from lxgpu.policy.heralds import herald
from lxgpu.policy.resting import let_rest
from lxgpu.policy.supplying import meet
from lxgpu.policy.trimming import trim_surplus
from lxgpu.policy.yielding import settle_warned


def decide_tick(snapshot: Snapshot, *, paused: bool = False) -> Agenda:
    """Everything that the state of things asks for at this moment.

    Paused, nothing new is taken from anybody, and nobody misses anything: what is over ends, and what is free is handed
    over.
    """
    return work_out(Desk(snapshot), paused=paused).agenda()


def work_out(desk: Desk, *, paused: bool = False) -> Desk:
    """The same, on a desk that may have more on it than what is written down."""
    close_over(desk, paused=paused)
    let_go(desk)
    if not paused:
        let_rest(desk)
        settle_warned(desk)
    settle_claims(desk)
    trim_surplus(desk)
    meet(desk, free_only=paused)
    offer_gaps(desk)
    hand_over(desk)
    if not paused:
        give_up_starts(desk)
    herald(desk)
    return desk
