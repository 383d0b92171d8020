"""Looks at several hosts, side by side: one that does not answer is unreachable, and holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from lxgpu.config.settings import Settings
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Readings
from lxgpu.model.onehost import rows_of
from lxgpu.model.snapshot import Observation, Records
from lxgpu.ports import Engine, HostProbe
from lxgpu.services import looking
from lxgpu.services.looking import Glance, Look

if TYPE_CHECKING:  # `ls` looks only, and loads no more than it needs
    from lxgpu.services.cards import Cards
    from lxgpu.services.views import InstanceView


Found = TypeVar("Found")
WITHIN_S = 15.0
"""How long a command waits for other hosts: some have to be connected to first."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host that can be asked, with the settings as they are there."""

    host: str
    engine: Engine
    probe: HostProbe
    settings: Settings


@dataclass(frozen=True, slots=True)
class PlaceLook:
    """What one host showed; its rows are in the look."""

    place: Place
    look: Look


def look_at_all(
    places: Sequence[Place], records: Records, *, at: datetime, within_s: float = WITHIN_S
) -> tuple[PlaceLook, ...]:
    """Cards, instances and one NVML sample of each, in their order; what others do not tell in time is not known."""
    if len(places) == 1:
        alone = places[0]
        return (PlaceLook(alone, looking.look(alone.engine, alone.probe, records, host=alone.host, at=at)),)

    def ask(place: Place) -> Look:
        rows = _rows(places, records, place)
        seen = looking.look(place.engine, _Answering(place.probe), rows, host=place.host, at=at)
        return replace(seen, trouble=_of(place, seen.trouble))

    def late(place: Place) -> Look:
        silent = Readings(error=f"{place.host} did not answer within {within_s:g} s")
        return Look(_rows(places, records, place), None, silent, at, _late(place, within_s))

    return tuple(map(PlaceLook, places, _side_by_side(places, ask, late, within_s)))


def glance_at_all(
    places: Sequence[Place], records: Records, *, with_state: bool = False
) -> tuple[tuple[Place, Glance], ...]:
    """One request to each engine, whatever the number of containers."""
    if len(places) == 1:
        return ((places[0], looking.glance(places[0].engine, records, with_state=with_state)),)

    def ask(place: Place) -> Glance:
        found = looking.glance(place.engine, _rows(places, records, place), with_state=with_state)
        return replace(found, trouble=_of(place, found.trouble))

    def late(place: Place) -> Glance:
        return Glance(_rows(places, records, place), None, _late(place, WITHIN_S))

    return tuple(zip(places, _side_by_side(places, ask, late, WITHIN_S), strict=True))


def cards_of(
    looks: Sequence[PlaceLook], *, mode: Callable[[str], str | None], judged: Mapping[str, str] | None = None
) -> Cards:
    """The cards of all hosts; those of one that did not answer are unknown, and nothing of them is free."""
    from lxgpu.services.cards import Cards, card_views  # noqa: PLC0415 -- not for `ls`
    from lxgpu.services.cardviews import order  # noqa: PLC0415 -- as above

    found = [card_views(one.look.records, one.look.seen, one.look.readings, mode=mode, judged=judged) for one in looks]
    views = sorted((view for cards in found for view in cards.views), key=order)
    return Cards(tuple(views), {uuid: text for cards in found for uuid, text in cards.notes.items()})


def instances_of(looks: Sequence[PlaceLook]) -> tuple[InstanceView, ...]:
    """The containers of all hosts; those of one that did not answer are unreachable."""
    from lxgpu.services.report import instance_views  # noqa: PLC0415 -- not for `ls`

    found = (
        view
        for one in looks
        for view in instance_views(
            one.look.records, one.look.seen.sightings if one.look.seen else None, one.place.settings
        )
    )
    return tuple(sorted(found, key=lambda view: view.name))


def together(looks: Sequence[PlaceLook], records: Records, *, at: datetime) -> Look:
    """One look of what those showed that answered; `trouble` is that of the first that did not."""
    if len(looks) == 1:
        return looks[0].look
    seen = [one.look.seen for one in looks if one.look.seen is not None]
    readings = [one.look.readings for one in looks]
    sample = Readings(
        items=tuple(item for one in readings for item in one.items),
        driver=readings[0].driver,
        error=next((one.error for one in readings if one.error), None),
    )
    union = Observation(
        host=looks[0].place.host,
        boot_id=seen[0].boot_id if seen else "",
        at=at,
        gpus=tuple(gpu for one in seen for gpu in one.gpus),
        sightings=tuple(found for one in seen for found in one.sightings),
        readings=sample,
    )
    return Look(records, union if seen else None, sample, at, trouble_of(looks))


def trouble_of(looks: Sequence[PlaceLook]) -> LxgpuError | None:
    """Why the first host that did not answer did not."""
    return next((one.look.trouble for one in looks if one.look.trouble), None)


def _side_by_side(
    places: Sequence[Place], ask: Callable[[Place], Found], late: Callable[[Place], Found], within_s: float
) -> list[Found]:
    """What all answer, in their order: the first in this thread, the others `within_s` from now, or what is `late`.

    Raises what asking the first one raises, or another.
    """
    answers: dict[str, Future[Found]] = {place.host: Future() for place in places}

    def work(place: Place) -> None:
        try:
            answers[place.host].set_result(ask(place))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            answers[place.host].set_exception(error)

    ends = time.monotonic() + within_s
    for place in places[1:]:  # they end with the process, whatever they wait for
        threading.Thread(target=work, args=(place,), name=f"lxgpu-look-{place.host}", daemon=True).start()
    found = [ask(places[0])]
    for place in places[1:]:
        try:
            found.append(answers[place.host].result(timeout=max(0.0, ends - time.monotonic())))
        except TimeoutError:
            found.append(late(place))
    return found


def _late(place: Place, within_s: float) -> LxgpuError:
    brief = f"{place.host}: it did not answer within {within_s:g} s"
    return LxgpuError("unavailable", brief, fix=f"lxgpu host show {place.host}")


def _rows(places: Sequence[Place], records: Records, place: Place) -> Records:
    return rows_of(records, place.host, hosts=[one.host for one in places])


def _of(place: Place, trouble: LxgpuError | None) -> LxgpuError | None:
    if trouble is None:
        return None
    return LxgpuError(trouble.code, f"{place.host}: {trouble.brief}", why=trouble.why, fix=trouble.fix)


class _Answering:
    """A probe that says why there is no sample in the place of raising it, as that of this host does.

    The boot of a host that does not answer is none that anything was made in.
    """

    def __init__(self, probe: HostProbe) -> None:
        self._probe = probe

    def boot_id(self) -> str:
        """The host's boot."""
        try:
            return self._probe.boot_id()
        except LxgpuError:
            return ""

    def readings(self) -> Readings:
        """One NVML sample."""
        try:
            return self._probe.readings()
        except LxgpuError as error:
            return Readings(error="; ".join([error.brief, *error.why]))
