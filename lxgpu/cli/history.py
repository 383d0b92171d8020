"""`lxgpu history` and `lxgpu why`: who did what, and why things are as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import click

from lxgpu.cli import params
from lxgpu.cli.plain import cell
from lxgpu.cli.render import Column, Output
from lxgpu.figures import short_size
from lxgpu.model.cardnames import in_short, short_uuids, whole_uuids
from lxgpu.services.traces import unsaid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lxgpu.cli.times import Times
    from lxgpu.model.operation import Event
    from lxgpu.services.explain import ReasonView


_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class EventView:
    """One line of history: the fields of `lxgpu.events/v1`."""

    at: datetime
    actor: str
    kind: str
    subject: str
    rule: str | None
    detail: Mapping[str, object]


@click.command()
@click.option("--subject", metavar="NAME|GPU", help="Only what is about this container or card.")
@click.option("--since", type=params.DURATION, metavar="D", help="Only the last 2h, 3d, …")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many, the newest ones.")
@click.option("-a", "--all", "everything", is_flag=True, help="What people were told too; -v and -o wide do.")
@params.output
def history(out: Output, *, subject: str | None, since: int | None, limit: int, everything: bool) -> None:
    """Who did what, when, and by which rule; the newest first. JSON, YAML and CSV carry every line."""
    from lxgpu.cli import looks  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.times import lab_times  # noqa: PLC0415

    times, _ = lab_times(out.screen)
    start = None if since is None else times.now - timedelta(seconds=since)
    hide = out.form == "table" and not everything and not out.screen.verbosity
    events = looks.history(subject, since=start, most=limit, hide=frozenset({"told"} if hide else ()))
    out.items("events", [_view(event) for event in events], _event_columns(times), empty="nothing happened")


@click.command()
@click.argument("subject", metavar="NAME|GPU|ID")
@params.output
def why(out: Output, subject: str) -> None:
    """Explain the state of a container, a card or a reservation.

    Who did it, when, by which rule, with the numbers that were compared; what it waits for, and what would change it.
    """
    from lxgpu.cli import whys  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.news import say_pause  # noqa: PLC0415

    reasons, times = whys.why(out.screen, subject)
    out.items("reasons", reasons, _reason_columns(times, reasons))
    say_pause(out.screen, times)


def _view(event: Event) -> EventView:
    return EventView(event.at, event.actor, event.kind, event.subject, event.rule or None, event.detail)


def _event_columns(times: Times) -> tuple[Column, ...]:
    return (
        Column("AT", "at", text=times.moment),
        Column("WHAT", "kind"),
        Column("SUBJECT", "subject"),
        Column("BY", "actor"),
        Column("RULE", "rule"),
        Column(
            "DETAIL",
            lambda item: told(cast("EventView", item).detail) or None,
            text=lambda detail: "; ".join(in_words(detail, times)),
        ),
    )


def in_words(detail: Mapping[str, object], times: Times) -> list[str]:
    """The detail for people, one `name value` each: instants in the lab's zone, fingerprints of images cut short."""
    return [
        f"{name.removesuffix('_bytes')} {short_size(value)}"
        if name.endswith("_bytes") and isinstance(value, (int, float))
        else f"{name} {_short(cell(value), times)}"
        for name, value in detail.items()
    ]


def _short(text: str, times: Times) -> str:
    if _FINGERPRINT.fullmatch(text):
        return text[:12]
    return times.show(datetime.fromisoformat(text)) if _INSTANT.fullmatch(text) else text


def told(detail: Mapping[str, object]) -> dict[str, object]:
    """What of the detail says something, once: reasons are in the message, numbers often in the rule's sentence."""
    found = {key: value for key, value in detail.items() if key != "reasons" and value not in (None, "", [], False)}
    numbers, said = found.get("numbers"), found.get("why")
    if isinstance(numbers, Mapping) and isinstance(said, str):
        found["numbers"] = unsaid(numbers, said)
    return {key: value for key, value in found.items() if value != {}}


def _reason_columns(times: Times, reasons: Sequence[ReasonView]) -> tuple[Column, ...]:
    """One reason a line; what it is about only where that is not the same for all. Cards by their short names."""
    subjects = {one.subject for one in reasons}
    names = short_uuids(whole_uuids([*subjects, *(one.text for one in reasons)]))

    def short(text: object) -> str:
        return in_short(str(text), names)

    def when(item: object) -> str | None:
        at = cast("ReasonView", item).at
        return times.show(at.astimezone(UTC)) if at else None

    return (
        Column("SUBJECT", "subject", short, wide=len(subjects) == 1),
        Column("STATE", "code"),
        Column("WHY", "text", short),
        Column("SINCE", when),
        Column("BY", "actor"),
        Column("RULE", "rule"),
    )
