"""What Prometheus is told, worked out of status.json: figures with few and bounded labels, and nothing that is unknown.

Labels name cards, slots, containers and pools, of which there are as many as the lab has, and words of lxgpu's own.
Never a process, a reservation's id, or what somebody wrote. A figure that is not known has no sample, and never 0; what
is as old as `STALE_S` says nothing about now, so that then only the daemon's own figures and the age are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lxgpu import __version__
from lxgpu.model.assignment import LIVE
from lxgpu.model.reservation import OPEN, Kind, ReservationState
from lxgpu.services.cardviews import IDLE, GpuView
from lxgpu.services.daemonfigures import BOUNDS_S, DaemonFigures
from lxgpu.services.statusfile import DaemonView, Published

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HEALTHS = ("ok", "closed", "missing", "quarantined", "sick", "unknown")
_FREE = ("free", "promised", "closed", "quarantined", "sick", "missing", "foreign")
SLOT_STATES = (*dict.fromkeys([*_FREE, *sorted(state.value for state in LIVE)]),)
EVENTS = ("displaced", "not_told", "quarantined", "refused", "told")
"""These are told from the beginning on, since it is known that there was none."""
Values = Iterable[tuple[Sequence[str], float | None]]


def exposition(published: Published | None, now: datetime) -> bytes:
    """The answer to a scrape, in Prometheus' text format, as `CONTENT_TYPE` says.

    Args:
        published: what status.json holds; None when it cannot be read, which leaves the version alone.
        now: the time of the scrape.
    """
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 -- the page is there before it
    from prometheus_client.registry import Collector  # noqa: PLC0415

    class Once(Collector):
        def collect(self) -> Iterator[Metric]:
            return families(published, now)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry)


def families(published: Published | None, now: datetime) -> Iterator[Metric]:
    """Every metric with its samples."""
    yield _gauge("lxgpu_build_info", "Which lxgpu answers.", ["version"], [([__version__], 1)])
    if published is None:
        return
    fresh = not published.old(now)
    yield _one("lxgpu_data_age_seconds", "How old it is what the daemon published last.", published.age_s(now))
    yield from _daemon(published.daemon, fresh=fresh)
    yield from _figures(published.daemon.figures)
    if fresh:
        yield from _site(published)
        yield from _cards(published)
        yield from _slots(published.gpus)
        yield from _containers(published, now)
        yield from _waiting(published)


def _daemon(view: DaemonView, *, fresh: bool) -> Iterator[Metric]:
    running = float(view.running) if fresh or not view.running else None
    yield _one("lxgpu_daemon_running", "Whether the daemon is at work.", running)
    yield _one("lxgpu_daemon_start_timestamp_seconds", "When the daemon began.", _stamp(view.started_at))
    yield _one(
        "lxgpu_daemon_last_tick_timestamp_seconds", "The last tick that came to its end.", _stamp(view.ticked_at)
    )
    yield _one("lxgpu_daemon_paused", "Whether nothing new is taken from anybody.", float(view.paused is not None))
    yield _one("lxgpu_daemon_troubles", "What is wrong now, as daemon status lists it.", len(view.troubles))
    yield _one("lxgpu_policy_broken", "Whether the policy file is refused and an older one holds.", not view.policy.ok)


def _figures(found: DaemonFigures) -> Iterator[Metric]:
    from prometheus_client.metrics_core import HistogramMetricFamily  # noqa: PLC0415

    yield _one("lxgpu_tick_last_duration_seconds", "How long the last tick took.", found.last_s)
    if found.within:
        buckets = [(str(bound), float(count)) for bound, count in zip(BOUNDS_S, found.within, strict=False)]
        took = HistogramMetricFamily("lxgpu_tick_duration_seconds", "How long ticks took.")
        took.add_metric([], [*buckets, ("+Inf", float(found.ticks))], found.ticks_s)
        yield took
    counted: dict[str, int] = dict.fromkeys(EVENTS, 0) | found.events if found.within else found.events
    failures = (([name], count) for name, count in found.failures.items())
    yield _counter("lxgpu_failures", "Ticks in which a section of the daemon failed.", ["section"], failures)
    events = (([kind], count) for kind, count in sorted(counted.items()))
    yield _one(
        "lxgpu_yield_last_seconds", "How long the last borrower took to stop; 0: none did.", found.yield_last_s or 0.0
    )
    together: list[tuple[list[str], float]] = [([], found.yields_s)]
    yield _counter("lxgpu_yield_seconds", "How long borrowers and holders worked at once, at most.", [], together)
    yield _counter("lxgpu_events", "Lines of history, since the daemon began.", ["kind"], events)


def _site(published: Published) -> Iterator[Metric]:
    status = published.status
    yield _one("lxgpu_gpus", "Cards that are there.", status.gpus.total)
    yield _one("lxgpu_gpus_free", "Cards all of whose slots are free.", status.gpus.free)
    yield _one("lxgpu_leases_over", "Leases that are over, kept until someone waits.", status.gpus.over)
    yield _one("lxgpu_next_end_timestamp_seconds", "When the next lease ends.", _stamp(status.gpus.next_at))
    yield _one("lxgpu_problems", "What lxgpu status lists as wrong.", len(status.problems))
    pool = status.pool
    yield _gauge("lxgpu_pool_size_bytes", "The storage pool.", ["pool"], [([pool.name], pool.size_bytes)])
    yield _gauge("lxgpu_pool_used_bytes", "What of it is taken.", ["pool"], [([pool.name], pool.used_bytes)])
    yield _one("lxgpu_operations", "Changes under way.", len(status.operations))
    ages = [(published.written_at - one.since).total_seconds() for one in status.operations]
    yield _one("lxgpu_operations_oldest_seconds", "For how long the oldest of them is.", max(ages, default=None))


def _cards(published: Published) -> Iterator[Metric]:
    cards = published.gpus
    health = Counter(card.health or "unknown" for card in cards)
    yield _gauge("lxgpu_gpus_by_health", "Cards by health.", ["health"], (([one], health[one]) for one in HEALTHS))
    names = ["gpu", "host", "model", "pci"]
    known = (([one.uuid, one.host or "", one.model or "", one.pci or ""], 1) for one in cards)
    yield _gauge("lxgpu_gpu_info", "A card, its model and place.", names, known)
    health_of = (([card.uuid, card.health or "unknown"], 1) for card in cards)
    yield _gauge("lxgpu_gpu_health", "The health that a card has.", ["gpu", "health"], health_of)
    verdicts = (([card.uuid, card.verdict or "unknown"], 1) for card in cards)
    yield _gauge("lxgpu_gpu_verdict", "Whether a card works: its verdict.", ["gpu", "verdict"], verdicts)
    yield _of_cards("lxgpu_gpu_utilization_ratio", "How busy it is, 0 to 1.", cards, [_share(one) for one in cards])
    used = [one.memory_used_bytes for one in cards]
    yield _of_cards("lxgpu_gpu_memory_used_bytes", "What of its memory is in use.", cards, used)
    yield _of_cards("lxgpu_gpu_memory_bytes", "Its memory.", cards, [one.memory_bytes for one in cards])
    running = [None if one.processes is None else len(one.processes) for one in cards]
    yield _of_cards("lxgpu_gpu_processes", "How many processes use it.", cards, running)
    sampled = [_stamp(one.sampled_at) for one in cards]
    yield _of_cards("lxgpu_gpu_sampled_timestamp_seconds", "When it was read.", cards, sampled)


def _slots(cards: Sequence[GpuView]) -> Iterator[Metric]:
    slots = [(card.uuid, slot.slot.partition("/")[2] or "whole", slot) for card in cards for slot in card.slots]
    states = Counter(slot.state for _, _, slot in slots)
    counts = (([state], states[state]) for state in SLOT_STATES)
    yield _gauge("lxgpu_slots", "Slots by state.", ["state"], counts if None not in states else ())
    known = (([gpu, part, slot.state], 1) for gpu, part, slot in slots if slot.state)
    yield _gauge("lxgpu_slot_state", "The state that a slot has.", ["gpu", "slot", "state"], known)
    held = (([gpu, part, slot.holder], 1) for gpu, part, slot in slots if slot.holder)
    yield _gauge("lxgpu_slot_held", "Who holds a slot.", ["gpu", "slot", "container"], held)
    ends = (([gpu, part], _stamp(slot.lease_until)) for gpu, part, slot in slots)
    yield _gauge("lxgpu_slot_lease_end_timestamp_seconds", "When its lease ends.", ["gpu", "slot"], ends)


def _containers(published: Published, now: datetime) -> Iterator[Metric]:
    states = sorted(published.status.containers.items())
    yield _gauge("lxgpu_containers", "Containers by state.", ["state"], (([name], count) for name, count in states))
    mine = published.instances
    names = ["container", "owner", "class"]
    info = (([one.name, one.owner or "", one.class_ or ""], 1) for one in mine)
    yield _gauge("lxgpu_container_info", "Whose a container is.", names, info)
    held = (([one.name], len(one.gpus)) for one in mine)
    yield _gauge("lxgpu_container_slots", "Slots that a container holds.", ["container"], held)
    seen = [(one.name, one.idle.since) for one in mine if one.idle.since and one.idle.verdict == IDLE]
    idle = (([name], (now - since).total_seconds()) for name, since in seen)
    text = "For how long none of its cards has worked; only of those that are idle."
    yield _gauge("lxgpu_container_idle_seconds", text, ["container"], idle)


def _waiting(published: Published) -> Iterator[Metric]:
    found = Counter((one.kind, one.state) for one in published.reservations)
    states = [state.value for state in ReservationState if state in OPEN]
    counts = (([kind.value, state], found[kind.value, state]) for kind in Kind for state in states)
    yield _gauge("lxgpu_reservations", "Reservations that are not over.", ["kind", "state"], counts)
    queue = [one for one in published.reservations if one.state == ReservationState.WAITING.value]
    yield _one("lxgpu_queue_length", "Who waits: requests and claims.", len(queue))
    yield _one("lxgpu_queue_gpus", "Cards that they wait for.", sum(one.gpus for one in queue))


def _share(card: GpuView) -> float | None:
    return None if card.utilization_percent is None else card.utilization_percent / 100


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _of_cards(name: str, text: str, cards: Sequence[GpuView], values: Sequence[float | None]) -> Metric:
    return _gauge(name, text, ["gpu"], (([card.uuid], value) for card, value in zip(cards, values, strict=True)))


def _one(name: str, text: str, value: float | None) -> Metric:
    return _gauge(name, text, [], [([], value)])


def _gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily  # noqa: PLC0415

    family = GaugeMetricFamily(name, text, labels=labels)
    for words, value in _known(values):
        family.add_metric(words, value)
    return family


def _counter(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily  # noqa: PLC0415

    family = CounterMetricFamily(name, text, labels=labels)
    for words, value in _known(values):
        family.add_metric(words, value)
    return family


def _known(values: Values) -> Iterator[tuple[Sequence[str], float]]:
    """What is known, each set of labels once: two would make Prometheus refuse the whole answer."""
    told = set()
    for words, value in values:
        if value is not None and tuple(words) not in told:
            told.add(tuple(words))
            yield words, float(value)
