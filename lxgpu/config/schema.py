"""The shape of policy.yaml, as pydantic models: what may stand where, with the words that editors show.

Only shape and grammar; what needs two places of the file at once is in `lxgpu.config.policy`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lxgpu.config.fields import (
    SECTION,
    Anybody,
    CardName,
    Cards,
    Count,
    CountPer,
    Duration,
    DurationPer,
    HostPath,
    Line,
    Mail,
    Moment,
    Name,
    Percent,
    PerGpuEntry,
    Person,
    Processes,
    Reserve,
    Size,
    Slice,
    Strict,
    Subject,
    Zone,
    optional,
)


class ClassEntry(Strict):
    """A priority class: who yields to whom."""

    priority: int = Field(ge=0, le=1000, description="Higher goes first.")
    preemptible: bool = optional("Whether cards held in this class may be taken for others.", default=True)
    who: list[Anybody] = optional("Who may use it beside those above; * is everybody.", default=[])
    max_gpus: Cards = optional("The most cards one person may hold in this class.")
    min_runtime: Duration = optional("A card is not taken sooner after each attach.", default="1h")
    grace: Duration = optional("From the warning until the card is taken.", default="5m")
    term_wait: Duration = optional("From TERM until KILL.", default="2m")
    preemption_threshold: int = optional(
        "Only classes of this priority and above may take from this one.", ge=0, le=1000
    )
    max_preemptions: CountPer = optional("How often one person may be hit, as 2/1d.")
    borrow: bool = optional("Whether it may work on cards that others leave idle and lend on.", default=False)


class TermsEntry(Strict):
    """One level of a quota; what it does not say comes from the level below."""

    class_: Name = optional("The class used when none is asked for.", alias="class")
    guaranteed: Cards = optional("Cards that nobody may take away for fairness.")
    limit: Cards = optional("The most cards held at a time.")
    weight: float = optional("The share when many wait.", gt=0, le=1000)
    lease: Duration = optional("How long a card is lent without a booking.")
    retain: Duration = optional("How long a deleted container is kept.")
    cpu: Annotated[int, Field(ge=1, le=4096)] = optional("Cores of a container.")
    memory: Size = optional("Memory of a container.")
    disk: Size = optional("Disk of a container.")
    processes: Processes = optional("Processes of a container.")
    per_gpu: Annotated[PerGpuEntry, SECTION] = optional("What each card adds to that.")
    gpu_hours: CountPer = optional("GPU-hours in a sliding window, as 200/30d.")
    lend_idle: bool = optional("Whether their cards are lent on while they leave them idle.")
    until: Moment = optional("When this ends (a date: its start).")


class UserEntry(TermsEntry):
    """A person's own quota, over that of their groups."""

    mail: Mail = optional("Where warnings go.")


class TotalEntry(Strict):
    """What a group has together."""

    guaranteed: Cards = optional()
    limit: Cards = optional()


class GroupEntry(Strict):
    """A group of people with a quota together and for each."""

    members: list[Anybody] = optional("People and @unix-groups; * is everybody.", default=[])
    total: Annotated[TotalEntry, SECTION] = optional("What they have together.")
    each: Annotated[TermsEntry, SECTION] = optional("What each of them has.")
    managers: list[Subject] = optional("Who may act for the members.", default=[])


class ChangeEntry(Strict):
    """What an override changes of a group."""

    total: Annotated[TotalEntry, SECTION] = optional()
    each: Annotated[TermsEntry, SECTION] = optional()


class IdleEntry(Strict):
    """When a card counts as idle, and what happens then."""

    window: Duration = optional("Every sample in it must be below.", default="2h")
    below: Percent = optional("Use of the card below this is none.", default="1%")
    coverage: Percent = optional("How many of the samples must be there.", default="90%")
    when: Literal["needed", "never"] = optional("Take idle cards when somebody waits.", default="needed")
    protect_ssh: Duration = optional("An open SSH session defers by this at most.", default="30m")
    protect_memory: Duration = optional("Memory held without work is left this long.", default="12h")
    warn: list[Duration] = optional("Warnings before taking.", default=["30m", "10m"])
    keep: DurationPer = optional("How much a person may defer by `keep`.", default="8h/7d")


class PreemptionEntry(Strict):
    """How a card is taken."""

    on_preempt: list[Literal["park", "term"]] = optional("Tried in order.", default=["term"], min_length=1)
    fence_timeout: Duration = optional("How long a card may take to come free.", default="120s")
    stop_stuck: bool = optional("Stop the container whose card does not come free.", default=False)


class ReservationsEntry(Strict):
    """Bounds of bookings."""

    horizon: Duration = optional("How far ahead.", default="30d")
    longest: Duration = optional("The longest booking.", default="7d")
    max_gpus: Count = optional("The most cards of one booking.", default=4)
    no_show: Duration = optional("A booking that nobody uses ends after this.", default="1h")
    open_gpu_hours: Count = optional("GPU-hours one person may have booked ahead or waiting in the queue.", default=336)
    free_window: Duration = optional("What is free this near is open to all.", default="12h")
    bind_before: Duration = optional("Cards are chosen this long before the start.", default="15m")
    give_up_after: Duration = optional("A start that fails this long is given up.", default="15m")
    notice: list[Duration] = optional("Likely victims hear this long before.", default=["12h", "1h"])
    half_life: Duration = optional("Past use counts half after this.", default="7d")
    claim_life: Duration = optional("A claim to return lives this long.", default="7d")


class TimeshareEntry(Strict):
    """What a time share is."""

    slots: Annotated[int, Field(ge=2, le=48)] = 4
    memory_guard: Literal["kill", "warn", "off"] = "kill"


class BorrowEntry(Strict):
    """When a card that its holder leaves idle is lent on."""

    idle: Duration = optional("So long it must have been idle.", default="5m")
    reserve: Reserve = optional("Memory that stays free for the holder: a share or a size.", default="10%")
    yield_end: Duration = optional("The borrower ends when the holder still works after this.", default="30s")


class SharingEntry(Strict):
    """How cards are shared that `gpus` does not name."""

    default: Literal["exclusive", "timeshare"] = "exclusive"
    timeshare: Annotated[TimeshareEntry, SECTION] = optional()
    borrow: Annotated[BorrowEntry, SECTION] = optional()


class CardEntry(Strict):
    """How one card is divided."""

    mode: Literal["exclusive", "timeshare", "mig"]
    slots: Annotated[int, Field(ge=2, le=48)] = optional()
    slices: Annotated[list[Slice], Field(min_length=1, max_length=7)] = optional()


class DataEntry(Strict):
    """A directory of the host that containers see."""

    path: HostPath = Field(description="The directory on the host.")
    at: HostPath = optional("Where it is inside; the same path if left out.")
    mode: Literal["ro", "rw"] = optional("Read-only or read-write.", default="ro")
    groups: list[Name] = optional("Groups of this file; all people if left out.", default=[])


class KeepFreeEntry(Strict):
    """What a host keeps for itself."""

    memory: Size = "16GiB"
    pool: Percent = "10%"


class HostsEntry(Strict):
    """Rules of all hosts."""

    memory_overcommit: float = optional("Memory promised over memory there.", default=1.5, ge=1, le=100)
    keep_free: Annotated[KeepFreeEntry, SECTION] = optional()
    pool_warn: Percent = optional("A pool this full is reported.", default="80%")


class ForecastEntry(Strict):
    """Whether forecasts have a say."""

    use: Literal["never", "proven"] = optional(
        "Never, or where they did better on the lab's own last weeks.", default="never"
    )
    half_life: Duration = optional("The past counts half for them after this.", default="4w")


class PageEntry(Strict):
    """Who may look at the page."""

    public: bool = optional(
        "Whether names, cards and bookings are shown to whoever reaches the page, without a link.", default=False
    )


class AlertsEntry(Strict):
    """When admins are told of what they must look at."""

    idle: Duration = optional("Cards idle for so long, while none is free.", default="4h")
    again: Duration = optional("What lasts is told again after this.", default="1d")


class OverrideEntry(Strict):
    """A change of the above for some time."""

    from_: Moment = Field(alias="from", description="When it starts (a date: its start).")
    until: Moment = Field(description="When it is over (a date: its start).")
    groups: Annotated[dict[Name, ChangeEntry], SECTION] = optional()
    users: Annotated[dict[Person, Annotated[UserEntry, SECTION]], SECTION] = optional()
    defaults: Annotated[TermsEntry, SECTION] = optional()
    note: Line = optional()


class PolicyFile(Strict):
    """policy.yaml of lxgpu: who may have how many GPUs, when, and who yields to whom."""

    version: Literal[1] = Field(description="The version of this format.")
    timezone: Zone = optional("The lab's zone, for times and dates without an offset.", default="UTC")
    contact: Line = optional("Printed with every refusal.", default="the admin of this machine")
    admins: list[Subject] = optional("People and @unix-groups.", default=["root"])
    classes: Annotated[dict[Name, ClassEntry], SECTION] = optional("Priority classes.", default={})
    defaults: Annotated[TermsEntry, SECTION] = optional("What everybody has.")
    groups: Annotated[dict[Name, Annotated[GroupEntry, SECTION]], SECTION] = optional("Groups of people.", default={})
    users: Annotated[dict[Person, Annotated[UserEntry, SECTION]], SECTION] = optional("Single people.", default={})
    idle: Annotated[IdleEntry, SECTION] = optional()
    preemption: Annotated[PreemptionEntry, SECTION] = optional()
    reservations: Annotated[ReservationsEntry, SECTION] = optional()
    sharing: Annotated[SharingEntry, SECTION] = optional()
    gpus: Annotated[dict[CardName, CardEntry], SECTION] = optional("Single cards, by UUID.", default={})
    data: Annotated[dict[Name, DataEntry], SECTION] = optional("Shared directories.", default={})
    hosts: Annotated[HostsEntry, SECTION] = optional()
    forecast: Annotated[ForecastEntry, SECTION] = optional()
    page: Annotated[PageEntry, SECTION] = optional()
    alerts: Annotated[AlertsEntry, SECTION] = optional()
    overrides: list[OverrideEntry] = optional("Changes for some time; the last one wins.", default=[])


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of policy.yaml (draft 2020-12), for editors."""
    schema = PolicyFile.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "policy.yaml of lxgpu"}
    return head | {name: value for name, value in _tidy(schema).items() if name != "title"}


def _tidy(value: Any) -> Any:  # noqa: ANN401 -- JSON of any kind
    """Leaves out `default: null`, which is no default but our mark for "not said"."""
    if isinstance(value, dict):
        return {key: _tidy(inner) for key, inner in value.items() if not (key == "default" and inner is None)}
    return [_tidy(inner) for inner in value] if isinstance(value, list) else value
