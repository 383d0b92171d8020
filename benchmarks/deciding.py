"""What deciding costs as a site grows: pure functions of made-up Snapshots, no lab, CPU time of one core."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from benchmarks.measure import pairs
from benchmarks.table import Result
from lxgpu.model.assignment import Assignment, AssignmentState, Card
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import Policy, Terms
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.agenda import decide_tick
from lxgpu.policy.reserve import decide_reserve

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)
MODELS = ("NVIDIA A100", "NVIDIA T4")
CARDS = 8
"""Cards of a server."""
POLICY = Policy(
    classes={name: PriorityClass(name, priority) for name, priority in (("low", 10), ("normal", 50), ("high", 90))},
    defaults=Terms(limit=CARDS),
)


def one_request(*, runs: int = 9) -> list[Result]:
    """One decision of a server at a site of 500 with 10,000 waiting, and the same where there is nothing but it.

    A request for later, one for now, and a whole pass. Each run takes the mean of several servers, which differ in what
    is free and in who waits (20 each). What stands in the tables is known from the decision before, as in the daemon.
    """
    everything = site(500, 10_000)
    large = [at(everything, host) for host in range(9)]
    small = [alone(one) for one in large]
    later = ReserveRequest("p1", "p1", 1, 7200, at=NOW + timedelta(hours=3))
    now = replace(later, at=None)
    actions: dict[str, Callable[[Snapshot], object]] = {
        "a request for later decided": lambda one: decide_reserve(one, later, identifier="new"),
        "a request for now decided": lambda one: decide_reserve(one, now, identifier="new"),
        "a server's pass": decide_tick,
    }
    return [_compared(name, action, large, small, runs) for name, action in actions.items()]


def whole_pass(*, runs: int = 3) -> list[Result]:
    """One pass over 10,000 waiting requests that any server may take, at 4,000 cards, against one second."""
    snapshot = site(500, 10_000, bound=False)
    ours = statistics.median(spent(lambda: decide_tick(snapshot)) for _ in range(runs))
    name = "a pass over 10,000 waiting at 4,000 cards"
    return [Result(name, "one second", round(ours, 4), 1.0, round(ours, 3), 1, runs)]


def _compared(
    name: str, action: Callable[[Snapshot], object], large: list[Snapshot], small: list[Snapshot], runs: int
) -> Result:
    def each(snapshots: list[Snapshot]) -> float:
        return spent(lambda: [action(one) for one in snapshots]) / len(snapshots)

    each(large), each(small)
    both = [(each(large), each(small)) for _ in range(runs)]
    return pairs(f"{name}, 500 servers and 10,000 waiting", "the same, 1 server and 20", 5, both)


def spent(action: Callable[[], object]) -> float:
    """Seconds of CPU that an action takes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def site(servers: int, waiting: int, *, bound: bool = True) -> Snapshot:
    """Servers of which nine in ten cards are held, with a queue; the same for the same numbers.

    `bound`: those who wait are spread over the servers; else any may take them.
    """
    chance = random.Random(servers)  # noqa: S311 -- a made-up site, the same each time
    people = [f"p{number}" for number in range(max(4, waiting // 5))]
    gpus = [_gpu(host, place) for host in range(servers) for place in range(CARDS)]
    held = tuple(_held(gpu, chance, people) for gpu in gpus if chance.random() < 0.9)  # noqa: PLR2004 -- nine in ten
    rows = [_request(number, chance, people) for number in range(waiting)]
    instances = [Instance(who, who, "h0", InstanceState.READY, NOW) for who in people]
    instances += [Instance(row.instance, row.owner, _host(row, servers), InstanceState.READY, NOW) for row in rows]
    records = Records(
        version=1,
        identity=None,
        instances=tuple(instances),
        assignments=held,
        cards=tuple(Card(gpu.uuid, gpu.host, gpu.pci, gpu.model, None, NOW) for gpu in gpus),
        reservations=tuple(replace(row, host=_host(row, servers) if bound else "") for row in rows),
    )
    return at(Snapshot(NOW, records, Observation("", "", NOW), POLICY), 0)


def at(snapshot: Snapshot, host: int) -> Snapshot:
    """What one of the servers decides on."""
    gpus = tuple(_gpu(host, place) for place in range(CARDS))
    return replace(snapshot, seen=Observation(f"h{host}", "boot", NOW, gpus=gpus))


def alone(snapshot: Snapshot) -> Snapshot:
    """What a server decides on at a site without the others: its own cards, holders and queue."""
    records, host = snapshot.records, snapshot.seen.host
    cards = {gpu.uuid for gpu in snapshot.seen.gpus}
    waiting = tuple(row for row in records.reservations if row.host == host)
    held = tuple(row for row in records.assignments if row.slot.gpu in cards)
    names = {*(row.instance for row in waiting), *(row.instance for row in held), "p1"}
    mine = replace(
        records,
        instances=tuple(row for row in records.instances if row.name in names),
        assignments=held,
        cards=tuple(card for card in records.cards if card.uuid in cards),
        reservations=waiting,
    )
    return replace(snapshot, records=mine)


def _gpu(host: int, place: int) -> Gpu:
    return Gpu(f"G{host}-{place}", f"0000:{place:02x}:00.0", MODELS[host % 2], f"h{host}")


def _host(row: Reservation, servers: int) -> str:
    return f"h{int(row.id[1:]) % servers}"


def _held(gpu: Gpu, chance: random.Random, people: list[str]) -> Assignment:
    return Assignment(
        id=f"a{gpu.uuid}",
        slot=Slot(gpu.uuid),
        instance=chance.choice(people),
        state=AssignmentState.ACTIVE,
        created_at=NOW,
        class_name="normal",
        since=NOW - timedelta(hours=5),
        until=NOW + timedelta(hours=chance.uniform(0.1, 72)),
    )


def _request(number: int, chance: random.Random, people: list[str]) -> Reservation:
    return Reservation(
        id=f"r{number:05}",
        instance=f"i{number:05}",
        owner=chance.choice(people),
        kind=Kind.REQUEST,
        gpus=chance.choice((1, 1, 1, 2, 4, 8)),
        state=ReservationState.WAITING,
        created_at=NOW - timedelta(hours=chance.uniform(0, 100)),
        duration_s=int(chance.uniform(1, 72) * 3600),
        class_name=chance.choice(tuple(POLICY.classes)),
        model=chance.choice(("*", "A100", "T4")),
    )
