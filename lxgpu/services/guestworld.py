"""What is shown of the host to containers: one look at LXD and the samples, which all who ask share for a moment.

The inventory is read for each question anew, which costs little where nothing was written; whoever wrote sees it. What
LXD shows is asked of it again only where cards have changed hands since, or when the last look has grown old.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Slot
from lxgpu.model.snapshot import Observation, Records
from lxgpu.model.usage import IdleVerdict
from lxgpu.services import observe
from lxgpu.services.cards import Cards, card_views
from lxgpu.services.site import Site
from lxgpu.services.watch import Watch

FRESH_S = 15.0
"""So long a look is believed while nobody's cards change: the daemon's turns, 10 s apart at most, leave one each."""
SILENT_S = 3.0
"""So long an LXD that does not answer is not asked again."""
WAIT_S = 2.0
"""So long a look is waited for; whoever asks is answered without it then."""
_OUT = frozenset({"unavailable", "outcome_unknown", "engine"})


@dataclass(frozen=True, slots=True)
class World:
    """The inventory at one version, and what LXD and the samples showed when cards were held as it says.

    `seen` is None while LXD does not answer. `at` is a second of the steady clock.
    """

    at: float
    records: Records
    seen: Observation | None = None
    verdicts: Mapping[Slot, IdleVerdict] = field(default_factory=dict)

    def holds(self, records: Records, now: float) -> bool:
        """Whether what was seen is good for these rows: the same cards are with the same people."""
        if now - self.at > (SILENT_S if self.seen is None else FRESH_S):
            return False
        return (self.records.assignments, self.records.keeps) == (records.assignments, records.keeps)


class Looks:
    """The last look, and one under way: whoever comes meanwhile waits for the same, for `wait_s`; threads share it."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._watch = Watch()
        self._pool = ThreadPoolExecutor(1, "guest-look")
        self._lock = Lock()
        self._last: World | None = None
        self._next: Future[World] | None = None
        self._cards: tuple[Records, Observation | None, Cards] | None = None

    def now(self, site: Site) -> World:
        """The inventory as it is now, with a look that is good for it; without one when it does not come in time."""
        records = site.inventory.read()
        if (known := self._known(site, records)) is not None:
            return known
        found = self._waited(site)
        records = site.inventory.read()
        if found is not None and not found.holds(records, site.clock.monotonic()):
            found = self._waited(site)  # that one had begun before cards changed hands; this one begins after
            records = found.records if found is not None else records
        return replace(found, records=records) if found is not None else World(site.clock.monotonic(), records)

    def cards(self, site: Site, world: World) -> Cards:
        """All cards as they are in a world, worked out once for all who ask."""
        with self._lock:
            known = self._cards
            if known is None or known[0] is not world.records or known[1] is not world.seen:
                rules = site.policy().rules
                found = card_views(world.records, world.seen, None, mode=lambda uuid: rules.card(uuid).mode.value)
                known = self._cards = (world.records, world.seen, found)
            return known[2]

    def _known(self, site: Site, records: Records) -> World | None:
        """The last look, or that of the daemon's last turn, if one of them is good."""
        now, turn = site.clock.monotonic(), site.watch.last
        there = (self._last, None if turn is None else World(turn[0], turn[1].records, turn[1].seen, turn[1].verdicts))
        good = next((one for one in there if one is not None and one.holds(records, now)), None)
        return None if good is None else replace(good, records=records)

    def _waited(self, site: Site) -> World | None:
        with self._lock:
            if self._next is None or self._next.done():
                self._next = self._pool.submit(self._look, site)
            look = self._next
        try:
            return look.result(self._wait_s)
        except TimeoutError:
            return None

    def _look(self, site: Site) -> World:
        from lxgpu.services.sampling import judge_all  # noqa: PLC0415 -- loaded when somebody asks

        records = site.inventory.read()
        try:
            seen = observe.look(site)
        except LxgpuError as error:
            if error.code not in _OUT:
                raise
            found = World(site.clock.monotonic(), records)
        else:
            verdicts = judge_all(replace(site, watch=self._watch), seen, records, site.policy())
            found = World(site.clock.monotonic(), records, seen, verdicts)
        self._last = found
        return found
