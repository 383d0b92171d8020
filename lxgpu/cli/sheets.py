"""One thing at length, for people: labelled lines of a container, a card, the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lxgpu.cli.history import in_words, told
from lxgpu.cli.looks import Scene, Shown
from lxgpu.cli.news import start_daemon
from lxgpu.cli.plain import cell
from lxgpu.cli.render import Column
from lxgpu.cli.times import Times
from lxgpu.figures import short_size
from lxgpu.model.cardnames import in_short, lent_as, n_asked, n_cards, short_model, short_uuids
from lxgpu.model.instance import Limits
from lxgpu.model.layout import in_parts
from lxgpu.model.operation import Event
from lxgpu.model.reservation import Keep, Kind, Reservation
from lxgpu.services.borrowwords import borrowed_by, of_card
from lxgpu.services.cardviews import GpuView, SlotView
from lxgpu.services.headline import headline
from lxgpu.services.overview import StatusView
from lxgpu.services.statusfile import DaemonView
from lxgpu.services.views import ClaimView, HeldView, InstanceView

Sheet = Sequence[tuple[str, Sequence[str]]]
"""Labels and their lines; see `Output.sheet`."""
_LAST = 8
"""How many lines of history a sheet shows."""

STATUS_COLUMNS = (
    Column("HOST", "host"),
    Column("FREE", "gpus.free"),
    Column("GPUS", "gpus.total"),
    Column("NEXT", "gpus.next_at"),
    Column("CONTAINERS", "containers"),
    Column("PROBLEMS", lambda item: len(item.problems) if isinstance(item, StatusView) else None),
)


def instance_sheet(shown: Shown) -> Sheet:
    """Everything about one container."""
    view, row, times = shown.view, shown.row, shown.times
    owner = "" if view.owner == view.name else f", for {view.owner}"
    keys = [f"{key.fingerprint} {_comment(key.line)}" for key in shown.records.keys if key.person == row.owner]
    work = [one for one in shown.records.operations if one.instance == row.name and one.live]
    names = short_uuids({*(card.uuid for card in shown.records.cards), *(held.uuid for held in view.gpus if held.uuid)})
    found: Sheet = (
        (
            "",
            [
                f"{view.name}: {view.state or 'changing'} on {view.host}{owner}"
                + (f": {row.reason}" if row.reason else "")
            ],
        ),
        ("class", [view.class_] if view.class_ else []),
        ("GPUs", _holds(view, times) or ["none"]),
        ("borrowed", [f"{one.slot}: {text}" for one, text in borrowed_by(shown.records, view.name)]),
        ("lent on", [f"{one}: {of_card(shown.records, one)}" for one in _lent_on(shown)]),
        ("claims", [_claim(one, times) for one in view.claims]),
        ("reserved", [_reserved(one, times) for one in shown.records.reservations if _asked(one, view.name)]),
        ("kept", [f"until {times.until(one.until)}: {one.reason}" for one in _keeps(shown)]),
        ("limits", [_limits(view.limits, view.disk_used_bytes)]),
        ("login", [f"ssh -p {view.ssh.port} {view.ssh.user}@{view.ssh.host}"] if view.ssh.port else []),
        ("keys", keys or ["none"]),
        ("network", [row.address] if row.address else []),
        ("system", [f"profile {row.profile}, image {row.image[:12] or '-'}"]),
        ("created", [times.show(row.created_at)]),
        ("expires", [times.until(row.expires)] if row.expires else []),
        ("under way", [f"{one.kind}, step {one.step or '-'}, by {one.actor}" for one in work]),
        ("history", event_lines(shown.events[:_LAST], times)),
    )
    return [(label, [in_short(line, names) for line in lines]) for label, lines in found]


def gpu_sheet(scene: Scene, view: GpuView, events: Sequence[Event]) -> Sheet:
    """Everything about one card."""
    times, note = scene.times, scene.cards.notes.get(view.uuid)
    memory = f"{_size(view.memory_used_bytes)} of {_size(view.memory_bytes)} in use"
    return (
        ("", [f"{view.uuid}: {view.model or 'unknown model'} on {view.host or 'an unknown host'}"]),
        ("address", [f"{view.pci or '-'}, NVML index {cell(view.index)}"]),
        ("health", [(view.health or "not known") + (f": {note}" if note else "")]),
        ("mode", [view.mode] if view.mode else []),
        ("holder", [_slot_line(slot, times, scene.cards.notes.get(slot.slot, "")) for slot in view.slots]),
        ("use", [f"{view.verdict or 'not known'}, utilisation {cell(view.utilization_percent)}%, {memory}"]),
        ("processes", _processes(view)),
        ("history", event_lines(events[:_LAST], times)),
    )


def status_sheet(view: StatusView, times: Times) -> Sheet:
    """The host on one screen."""
    pool = view.pool
    full = f"{_size(pool.used_bytes)} of {_size(pool.size_bytes)}" + (
        f" ({pool.used_percent:.0f}%)" if pool.used_percent is not None else ""
    )
    states = ", ".join(f"{number} {state}" for state, number in view.containers.items())
    return (
        ("", [headline(view.gpus, times.show)]),
        ("host", [view.host]),
        ("containers", [states or "none"]),
        ("pool", [f"{pool.name}: {full}"]),
        ("driver", [view.driver] if view.driver else []),
        (
            "under way",
            [
                f"{'undoing ' if one.undoing else ''}{one.kind} {one.instance}, step {one.step or '-'},"
                f" since {times.show(one.since)}, by {one.actor}"
                for one in view.operations
            ],
        ),
        ("problems", [f"{one.subject}: {one.text}" + (f" [{one.fix}]" if one.fix else "") for one in view.problems]),
    )


def daemon_sheet(view: DaemonView, times: Times) -> Sheet:
    """The daemon at length."""
    since = f", process {view.pid}, since {times.show(view.started_at)}" if view.pid and view.started_at else ""
    pause = view.paused
    held = f"by {pause.who} since {times.show(pause.when)}: {pause.why}" if pause else ""
    return (
        ("", [f"running{since}" if view.running else "not running: nothing is taken back or given back by itself"]),
        ("last tick", [times.show(view.ticked_at) if view.ticked_at else "none"]),
        ("next tick", [f"{times.show(view.next_at)} at the latest"] if view.next_at else []),
        ("paused", [held] if held else []),
        ("policy", [f"the last good one holds: {view.policy.error}"] if view.policy.error else []),
        ("troubles", list(view.troubles)),
        ("start it", [] if view.running else [start_daemon()]),
    )


def event_lines(events: Iterable[Event], times: Times) -> list[str]:
    """History, one event a line."""
    return [f"{times.show(one.at)} {one.kind} by {one.actor}{_details(one, times)}" for one in events]


def _details(event: Event, times: Times) -> str:
    parts = [f"rule {event.rule}"] if event.rule else []
    parts += in_words(told(event.detail), times)
    return f" ({'; '.join(parts)})" if parts else ""


def _lent_on(shown: Shown) -> list[str]:
    mine = {row.id for row in shown.records.held_by(shown.view.name)}
    return [row.slot.card for row in shown.records.borrowings if row.live and row.assignment in mine]


def _claim(claim: ClaimView, times: Times) -> str:
    dies = f", until {times.show(claim.dies)}" if claim.dies else ""
    model = claim.model or "unknown model"
    what = n_cards(claim.gpus, model) if in_parts(model) else f"{claim.gpus} {short_model(model)}"
    return f"{what}, since {times.show(claim.since)}{dies}"


def _asked(row: Reservation, instance: str) -> bool:
    return row.instance == instance and row.kind is not Kind.RETURN


def _reserved(row: Reservation, times: Times) -> str:
    span = f", {times.show(row.start)} until {times.show(row.until)}" if row.start and row.until else ""
    return f"{row.id}: {n_asked(row.gpus, row.pool or row.model)}, {row.state.value}{span}"


def _keeps(shown: Shown) -> list[Keep]:
    now = shown.times.now
    return [row for row in shown.records.keeps if row.instance == shown.view.name and row.since <= now < row.until]


def _model(held: HeldView) -> str:
    return short_model(lent_as(held.model or "unknown model", held.slot))


def _holds(view: InstanceView, times: Times) -> list[str]:
    return [
        f"{held.slot} {_model(held)} ({held.pci or 'no address'}): {held.state}"
        + (f" since {times.show(held.since)}" if held.since else "")
        + (f", until {times.until(held.lease_until)}" if held.lease_until else "")
        for held in view.gpus
    ]


def _slot_line(slot: SlotView, times: Times, note: str) -> str:
    text = slot.state or "not known"
    if slot.holder:
        text = f"{slot.holder} ({text})"
    part = slot.slot.partition("/")[2]
    text += f" until {times.until(slot.lease_until)}" if slot.lease_until else ""
    if not part or not slot.holder:
        return (f"{part} " if part else "") + text
    use = f"{cell(slot.utilization_percent)}%, {_size(slot.memory_used_bytes)} in use"
    return f"{part} {text}, {use}" + (f"; {note}" if note else "")


def _processes(view: GpuView) -> list[str]:
    if view.processes is None:
        return ["not known"]
    return [
        f"{one.pid} of {one.user or 'unknown'} in {one.instance or 'the host'}, {_size(one.memory_bytes)}"
        for one in view.processes
    ] or ["none"]


def _limits(limits: Limits, used: int | None) -> str:
    disk = f"{_size(limits.disk_bytes)} disk" + (f" ({_size(used)} used)" if used is not None else "")
    memory = f"{_size(limits.memory_bytes)} memory"
    return f"{cell(limits.cpu)} CPU, {memory}, {disk}, {cell(limits.processes)} processes"


def _size(value: int | None) -> str:
    return "-" if value is None else short_size(value)


def _comment(line: str) -> str:
    """The comment of an authorized_keys line, with the kind of the key before it."""
    words = line.split()
    kind = next((number for number, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))), None)
    if kind is None:
        return ""
    return " ".join([words[kind], *words[kind + 2 :]])
