"""What the commands that only look have in common: the gathering, and saying what could not be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu import hosts, wiring
from lxgpu.cli.params import When
from lxgpu.cli.screen import Screen
from lxgpu.cli.times import Times, lab_times
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import is_part
from lxgpu.model.instance import Instance
from lxgpu.model.operation import Event
from lxgpu.model.quota import Policy
from lxgpu.model.snapshot import Records
from lxgpu.policy.guard import ENDED, OVER
from lxgpu.policy.resolve import find_gpu
from lxgpu.services import looking, overview, report, unknown
from lxgpu.services.cards import Cards, past_views
from lxgpu.services.cardviews import GpuView
from lxgpu.services.hostlooks import PlaceLook, cards_of, instances_of, look_at_all, together
from lxgpu.services.idleviews import published_idle, published_verdicts
from lxgpu.services.looking import Look
from lxgpu.services.memorywords import NEWS, about_memory
from lxgpu.services.overview import StatusView
from lxgpu.services.statusfile import Published
from lxgpu.services.unknown import meant
from lxgpu.services.views import InstanceView

_EVENTS = 1000
"""How far back the history of one card is searched."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Cards at one moment: now with `look`, or at an instant of the past or future without."""

    cards: Cards
    times: Times
    moment: datetime
    records: Records
    policy: Policy | None
    look: Look | None = None
    looks: tuple[PlaceLook, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """One container with all that `show` and `why` tell of it; `events` are its own, newest first."""

    view: InstanceView
    row: Instance
    records: Records
    events: list[Event]
    times: Times
    trouble: LxgpuError | None = None


def records() -> Records:
    """The inventory, or an empty one where it has never been made."""
    return looking.records_of(lambda: wiring.inventory(read_only=True))


def scene(screen: Screen, *, quiet: bool = False) -> Scene:
    """The cards now; what does not answer is said, unless `quiet`."""
    times, policy = lab_times(screen)
    rows = records()
    known = {card.pci: card.uuid for card in rows.cards}
    looks = look_at_all(hosts.places(known), rows, at=times.now)
    look = together(looks, rows, at=times.now)
    if not quiet:
        _say(screen, look)
    judged = published_verdicts(str(wiring.settings().state_dir))
    cards = cards_of(looks, mode=_modes(policy), judged=judged)
    cards = replace(cards, notes={**cards.notes, **_of_memory(cards.views, times)})
    return Scene(cards=cards, times=times, moment=times.now, records=rows, policy=policy, look=look, looks=looks)


def _of_memory(views: Iterable[GpuView], times: Times) -> dict[str, str]:
    """What the memory guard has to say of parts of cards that are held, newest first, by their names."""
    held = {slot.slot: slot.holder for view in views for slot in view.slots if is_part(slot.slot) and slot.holder}
    if not held:
        return {}
    events = wiring.inventory(read_only=True).events(since=times.now - NEWS, kinds=(OVER, ENDED))
    mine = [event for event in events if held.get(str(event.detail.get("gpu"))) == event.subject]
    said: dict[str, str] = {}
    for one in about_memory(mine, held, show=times.show, now=times.now):
        said[one.subject] = f"{said[one.subject]}; {one.text}" if one.subject in said else one.text
    return said


def scene_at(screen: Screen, when: When) -> Scene:
    """The cards at another time: by the history, or, for a time to come, as the leases stand now."""
    times, policy = lab_times(screen)
    at = when.at(now=times.now, zone=times.zone)
    rows = records()
    if at > times.now:
        past = looking.as_leased(rows, at)
        screen.note("that is still to come: shown are the leases as they stand now")
    else:
        past = looking.past_of(lambda: wiring.inventory(read_only=True), at)
    cards = past_views(past, rows, looking.cards(wiring.watcher()), at, mode=_modes(policy))
    return Scene(cards=cards, times=times, moment=at, records=rows, policy=policy)


def published_scene(screen: Screen, found: Published) -> Scene:
    """The cards as the daemon published them."""
    times, policy = lab_times(screen)
    cards = Cards(views=found.gpus, notes=found.notes)
    return Scene(cards=cards, times=times, moment=found.written_at, records=looking.NOTHING, policy=policy)


def the_gpu(found: Scene, text: str) -> GpuView:
    """The card that a text names.

    Raises:
        LxgpuError: `not_found`; `usage` when it names several.
    """
    uuid = find_gpu(text, {view.uuid: view.pci for view in found.cards.views})
    view = next((view for view in found.cards.views if view.uuid == uuid), None)
    if view is None:
        hint = meant(text, (row.name for row in found.records.instances))
        raise LxgpuError(
            "not_found",
            f"there is no container and no card {text}",
            fix=f"{hint}lxgpu ls --all lists the containers, lxgpu gpus the cards",
        )
    return view


def instance(screen: Screen, name: str) -> Shown | None:
    """One container of the inventory, with its state in LXD; None when the inventory has none of that name."""
    rows = records()
    row = rows.instance(name)
    if row is None:
        return None
    place = hosts.place_of(row)
    found = looking.glance_at(place.engine, rows, row.engine_name or name)
    if found.trouble is not None:
        screen.warn(f"{found.trouble.brief}; what is shown is what the inventory knows")
    idle = published_idle(str(wiring.settings().state_dir))
    views = report.instance_views(rows, found.sightings, place.settings, trashed=True, idle=idle)
    view = next(view for view in views if view.name == name)
    events = wiring.inventory(read_only=True).events(subject=name, limit=_EVENTS)
    return Shown(view=view, row=row, records=rows, events=events, times=lab_times(screen)[0], trouble=found.trouble)


def events_of(subject: str) -> list[Event]:
    """The history of a container or a card, newest first; none where there is no inventory."""
    return looking.events_about(lambda: wiring.inventory(read_only=True), subject, most=_EVENTS)


def status(found: Scene) -> StatusView:
    """The host as a whole."""
    assert found.look is not None  # noqa: S101 -- a scene of now has one
    settings, engine = wiring.settings(), wiring.watcher()
    return overview.status_view(
        found.look,
        found.cards,
        instances_of(found.looks),
        overview.pool_view(engine, settings.pool),
        host=wiring.host_name(),
        warn_percent=(found.policy or Policy()).rules.hosts.pool_warn_percent,
    )


def _modes(policy: Policy | None) -> Callable[[str], str | None]:
    """How cards are divided, by the policy; not known without one."""
    return (lambda uuid: policy.rules.card(uuid).mode.value) if policy else (lambda _: None)


def _say(screen: Screen, look: Look) -> None:
    if look.trouble is not None:
        screen.warn(f"{look.trouble.brief}; what is shown is what the inventory knows")
    if look.readings.error:
        screen.warn(f"NVML does not answer, so what the cards do is not known: {look.readings.error}")


def check_known(name: str, rows: Records) -> None:
    """Error `not_found`, with what was probably meant, for a name that no container has or ever had."""
    unknown.check_known(rows, name, past=lambda text: bool(events_of(text)))


def history(
    subject: str | None, *, since: datetime | None, most: int, hide: frozenset[str] = frozenset()
) -> list[Event]:
    """The newest events but those of the kinds to `hide`, as many as there are up to `most`.

    They are of everything, or of one container or card (a card by whatever names it).
    """
    asked = most
    while True:
        found = _history(subject, since=since, most=asked)
        shown = [event for event in found if event.kind not in hide]
        if len(shown) >= most or len(found) < asked:
            return shown[:most]
        asked *= 4


def _history(subject: str | None, *, since: datetime | None, most: int) -> list[Event]:
    store = lambda: wiring.inventory(read_only=True)  # noqa: E731 -- handed on twice
    if subject is None:
        return looking.events_about(store, None, most=most, since=since)
    rows = records()
    cards = {card.uuid: card.pci for card in rows.cards}
    uuid = None if rows.instance(subject) else find_gpu(subject, cards)
    found = looking.events_about(store, uuid or subject, most=most, since=since)
    if not found and uuid is None:
        check_known(subject, rows)
    return found
