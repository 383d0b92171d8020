"""The rules of the lab as the policy file states them: classes, idleness, taking, booking, sharing, hosts.

Values only. The defaults here are those that hold where the policy file is silent; docs/policy.md lists them.
Durations are whole seconds, sizes bytes, shares 0.0 to 100.0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MINUTE, HOUR, DAY = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class Allowance:
    """An amount within a sliding window: times, seconds or GPU-hours per `window_s` seconds."""

    amount: int
    window_s: int


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """Who yields to whom. `priority` and `preemptible` are two settings, not one.

    `who` lists people and `@unix-groups` who may use the class although their own is lower; `max_gpus` is the most
    one person may hold in it (None: no such bound). A holder keeps a card for `min_runtime_s` from each attach, hears
    `grace_s` before it is taken, and has `term_wait_s` between TERM and KILL. Nobody is hit more often than
    `max_preemptions` for the sake of fairness and priority. With `borrow` one may work on cards that others leave idle.
    """

    name: str
    priority: int
    preemptible: bool = True
    who: tuple[str, ...] = ()
    max_gpus: int | None = None
    min_runtime_s: int = HOUR
    grace_s: int = 5 * MINUTE
    term_wait_s: int = 2 * MINUTE
    preemption_threshold: int | None = None
    max_preemptions: Allowance | None = None
    borrow: bool = False

    def yields_to(self, other: PriorityClass) -> bool:
        """Whether a holder of this class may be taken for a request of the other class, by priority.

        The other's priority must be higher, and reach `preemption_threshold` where there is one. Claims within a
        guarantee, expired leases and bookings made earlier do not ask this.
        """
        needed = max(self.priority + 1, self.preemption_threshold or 0)
        return self.preemptible and other.priority >= needed


class IdleWhen(StrEnum):
    """When an idle card is taken: only when somebody waits for it, or never."""

    NEEDED = "needed"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class IdleRules:
    """What idle means. A card is idle when every sample of `window_s` is below `below_percent`.

    At least `coverage_percent` of the samples must be there. An open SSH session defers by `protect_ssh_s` at
    most, memory held without work by `protect_memory_s`. `warn_s` are the warnings' distances before taking,
    longest first; `keep` is how much a person may defer by hand.
    """

    window_s: int = 2 * HOUR
    below_percent: float = 1.0
    coverage_percent: float = 90.0
    when: IdleWhen = IdleWhen.NEEDED
    protect_ssh_s: int = 30 * MINUTE
    protect_memory_s: int = 12 * HOUR
    warn_s: tuple[int, ...] = (30 * MINUTE, 10 * MINUTE)
    keep: Allowance = Allowance(amount=8 * HOUR, window_s=7 * DAY)


class TakeBy(StrEnum):
    """Ways to free a card from its work, tried in the order given: checkpoint it, or send TERM."""

    PARK = "park"
    TERM = "term"


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How cards are taken: by what, how long the fence may last, whether a stuck instance is stopped whole."""

    on_preempt: tuple[TakeBy, ...] = (TakeBy.TERM,)
    fence_timeout_s: int = 120
    stop_stuck: bool = False


@dataclass(frozen=True, slots=True)
class BookingRules:
    """Bounds of bookings. `open_gpu_hours` is what one person may have booked ahead or waiting at a time.

    What is free within `free_window_s` is open to all. Cards are bound `bind_before_s` before the start, a start is
    given up `give_up_after_s` after it, likely victims hear at `notice_s` before. A booking that nobody uses
    for `no_show_s` ends. `half_life_s` is how fast past use stops to count, `claim_life_s` how long a claim lives.
    """

    horizon_s: int = 30 * DAY
    longest_s: int = 7 * DAY
    max_gpus: int = 4
    no_show_s: int = HOUR
    open_gpu_hours: int = 336
    free_window_s: int = 12 * HOUR
    bind_before_s: int = 15 * MINUTE
    give_up_after_s: int = 15 * MINUTE
    notice_s: tuple[int, ...] = (12 * HOUR, HOUR)
    half_life_s: int = 7 * DAY
    claim_life_s: int = 7 * DAY


class ForecastUse(StrEnum):
    """Whether the forecast has a say: never, or where it is proven better on the lab's own last weeks."""

    NEVER = "never"
    PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class ForecastRules:
    """Whether forecasts have a say, and how fast the past stops to count for them."""

    use: ForecastUse = ForecastUse.NEVER
    half_life_s: int = 28 * DAY


class Mode(StrEnum):
    """How a card is divided: whole, into time shares, or into MIG slices; never two of these at once."""

    EXCLUSIVE = "exclusive"
    TIMESHARE = "timeshare"
    MIG = "mig"


class MemoryGuard(StrEnum):
    """What happens to a time share that takes more than its part of the card's memory."""

    KILL = "kill"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class BorrowRules:
    """When a card that its holder leaves idle is lent on, and when the borrower has to go.

    It must have been idle for `idle_s`. So much of its memory is always left to the holder: `reserve_bytes`, or
    `reserve_percent` of it where that is None. Who still works on it `yield_end_s` after coming back has it alone.
    """

    idle_s: int = 5 * MINUTE
    reserve_percent: float = 10.0
    reserve_bytes: int | None = None
    yield_end_s: int = 30

    def reserve(self, total_bytes: int) -> int:
        """The bytes of a card that stay free for its holder."""
        return int(total_bytes * self.reserve_percent / 100) if self.reserve_bytes is None else self.reserve_bytes


@dataclass(frozen=True, slots=True)
class SharingRules:
    """The mode of cards that `gpus` does not name, what a time share is, and how idle cards are lent on."""

    default: Mode = Mode.EXCLUSIVE
    slots: int = 4
    memory_guard: MemoryGuard = MemoryGuard.KILL
    borrow: BorrowRules = field(default_factory=BorrowRules)


@dataclass(frozen=True, slots=True)
class CardRule:
    """How one card is divided: `slots` time shares, or `slices` MIG profiles such as `3g.20gb`; else neither."""

    mode: Mode
    slots: int = 1
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedData:
    """A directory of the host for containers: `path` there, `at` inside; open to `groups`, to all when empty."""

    name: str
    path: str
    at: str
    read_only: bool = True
    groups: tuple[str, ...] = ()

    def open_to(self, groups: Collection[str]) -> bool:
        """Whether somebody in these policy groups gets it."""
        return not self.groups or any(group in groups for group in self.groups)


@dataclass(frozen=True, slots=True)
class HostRules:
    """What a host keeps for itself, how far memory is promised twice, and when a full pool warns and refuses."""

    memory_overcommit: float = 1.5
    keep_free_memory_bytes: int = 16 * 1024**3
    keep_free_pool_percent: float = 10.0
    pool_warn_percent: float = 80.0


@dataclass(frozen=True, slots=True)
class PageRules:
    """Whether the page shows who holds what to everybody who reaches it; else a link lets people in."""

    public: bool = False


@dataclass(frozen=True, slots=True)
class AlertRules:
    """For how long cards must lie idle, with none free, until admins are told; and when they are told again."""

    idle_s: int = 4 * HOUR
    again_s: int = DAY


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules that are the same for everybody, in one value."""

    idle: IdleRules = field(default_factory=IdleRules)
    preemption: PreemptionRules = field(default_factory=PreemptionRules)
    bookings: BookingRules = field(default_factory=BookingRules)
    sharing: SharingRules = field(default_factory=SharingRules)
    hosts: HostRules = field(default_factory=HostRules)
    forecast: ForecastRules = field(default_factory=ForecastRules)
    page: PageRules = field(default_factory=PageRules)
    alerts: AlertRules = field(default_factory=AlertRules)
    cards: Mapping[str, CardRule] = field(default_factory=dict)

    def card(self, uuid: str) -> CardRule:
        """How the card of that UUID is divided: by its own entry, by the longest prefix (`GPU-3f2a*`), or as all."""
        if uuid in self.cards:
            return self.cards[uuid]
        prefixes = [key for key in self.cards if key.endswith("*") and uuid.startswith(key[:-1])]
        if prefixes:
            return self.cards[max(prefixes, key=len)]
        shared = self.sharing.default is Mode.TIMESHARE
        return CardRule(mode=self.sharing.default, slots=self.sharing.slots if shared else 1)
