"""What deciding costs as a site grows: pure functions of made-up Snapshots, no lab, CPU time of one core."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from benchmarks.measure import Result, pairs
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.quota import Policy, Terms
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import PriorityClass
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.backfill import backfill
from lxgpu.policy.calendar import Skyline, Span
from lxgpu.policy.outlook import Place
from lxgpu.policy.queue import in_order
from lxgpu.policy.reserve import decide_reserve

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)
MODELS = ("NVIDIA A100", "NVIDIA T4")
CARDS = 8
"""Cards of a server."""
POLICY = Policy(
    classes={name: PriorityClass(name, priority) for name, priority in (("low", 10), ("normal", 50), ("high", 90))},
    defaults=Terms(limit=CARDS),
)


def booking(*, runs: int = 15) -> Result:
    """One booking decided at 500 servers with 10,000 waiting, and at one server with 20."""
    large, small = site(500, 10_000), site(1, 20)
    request = ReserveRequest("p1", "p1", 1, 7200, at=NOW + timedelta(hours=3))

    def decide(snapshot: Snapshot) -> float:
        return spent(lambda: decide_reserve(snapshot, request, identifier="new"))

    decide(large), decide(small)
    both = [(decide(large), decide(small)) for _ in range(runs)]
    return pairs("one booking decided, 500 servers and 10,000 waiting", "the same, 1 server and 20", 5, both)


def queue_pass(*, runs: int = 3) -> Result:
    """Order and backfill of 10,000 waiting requests at 4,000 cards, against one second."""
    snapshot = site(500, 10_000)
    waiting = snapshot.records.reservations

    def one(free: dict[Place, Skyline]) -> float:
        return spent(lambda: backfill(snapshot, in_order(snapshot, waiting), free))

    taken = [one(outlooks(snapshot)) for _ in range(runs)]
    ours = statistics.median(taken)
    return Result(
        "a pass over 10,000 waiting at 4,000 cards", "one second", round(ours, 4), 1.0, round(ours, 3), 1, runs
    )


def spent(action: Callable[[], object]) -> float:
    """Seconds of CPU that an action takes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def site(servers: int, waiting: int) -> Snapshot:
    """Servers of which nine in ten cards are held, with a queue; the same for the same numbers."""
    chance = random.Random(servers)  # noqa: S311 -- a made-up site, the same each time
    people = [f"p{number}" for number in range(max(4, waiting // 5))]
    cards = [(host, place) for host in range(servers) for place in range(CARDS)]
    gpus = [Gpu(f"G{host}-{n}", f"0000:{n:02x}:00.0", MODELS[host % 2], f"h{host}") for host, n in cards]
    held = tuple(
        Assignment(
            id=f"a{gpu.uuid}",
            slot=Slot(gpu.uuid),
            instance=chance.choice(people),
            state=AssignmentState.ACTIVE,
            created_at=NOW,
            class_name="normal",
            since=NOW - timedelta(hours=5),
            until=NOW + timedelta(hours=chance.uniform(0.1, 72)),
        )
        for gpu in gpus
        if chance.random() < 0.9  # noqa: PLR2004 -- nine in ten
    )
    records = Records(
        version=1,
        identity=None,
        instances=tuple(Instance(who, who, "h0", InstanceState.READY, NOW) for who in people),
        assignments=held,
        reservations=tuple(_request(number, chance, people) for number in range(waiting)),
    )
    seen = Observation("h0", "boot", NOW, gpus=tuple(gpu for gpu in gpus if gpu.host == "h0"))
    return Snapshot(NOW, records, seen, POLICY)


def outlooks(snapshot: Snapshot) -> dict[Place, Skyline]:
    """What is expected to be free on every server of such a site."""
    spans: dict[str, list[Span]] = {}
    for row in snapshot.records.assignments:
        host = row.slot.gpu[1:].partition("-")[0]
        spans.setdefault(host, []).append(Span(NOW, row.until, 1, row.id))
    return {Place(f"h{host}", MODELS[int(host) % 2]): Skyline(CARDS, there) for host, there in spans.items()}


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
