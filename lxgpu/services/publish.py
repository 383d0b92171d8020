"""What the daemon publishes, put together from one look at everything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lxgpu.instants import show_instant
from lxgpu.model.gpu import Readings
from lxgpu.model.onehost import everywhere
from lxgpu.model.snapshot import Records
from lxgpu.services.calendarview import MOST, calendar, within
from lxgpu.services.foresight import foreseen
from lxgpu.services.headline import count, headline
from lxgpu.services.hostlooks import Place, PlaceLook, cards_of, instances_of, look_at_all, together
from lxgpu.services.idleviews import with_idle
from lxgpu.services.overview import pool_view, status_view
from lxgpu.services.reservationviews import Ledger, reservation_views
from lxgpu.services.sampling import judge_all
from lxgpu.services.site import Site
from lxgpu.services.statusfile import DaemonView, Published
from lxgpu.services.waitline import counts_since, lines

OTHERS_S = 2.0
"""So long other hosts are waited for: a slow one must not hold the daemon's turns up."""
_EVENTS = 1000
"""So far back it is looked for whom a reservation displaced."""


def published(site: Site, daemon: DaemonView, others: Sequence[Place] = ()) -> Published:
    """Look, and write down what the commands that only look would show; `others` are the other hosts."""
    now, policy = site.clock.now(), site.policy()
    places = (Place(site.host, site.engine, site.probe, site.settings), *others)
    records = everywhere(site.inventory.read())
    looks = look_at_all(places, records, at=now, within_s=OTHERS_S)
    look = together(looks, records, at=now)
    verdicts = {
        slot: verdict
        for one in looks
        if one.look.seen
        for slot, verdict in judge_all(site, one.look.seen, one.look.records, policy).items()
    }
    cards = cards_of(
        looks,
        mode=lambda uuid: policy.rules.card(uuid).mode.value,
        judged={slot.gpu: verdict.use.value for slot, verdict in verdicts.items()},
    )
    instances = with_idle(instances_of(looks), look.records, verdicts)
    status = status_view(
        look,
        cards,
        instances,
        pool_view(site.engine, site.settings.pool),
        host=site.host,
        warn_percent=policy.rules.hosts.pool_warn_percent,
    )
    return Published(
        written_at=now,
        headline=headline(count(cards.views, now), lambda at: show_instant(at, now=now, zone=policy.zone)),
        status=status,
        daemon=daemon,
        instances=instances,
        gpus=cards.views,
        notes={uuid: text for uuid, text in cards.notes.items() if text},
        reservations=reservation_views(_ledger(site, look.records, looks)),
        calendar=within(calendar(look.records, now=now, ahead=MOST)),
        timezone=policy.timezone,
        contact=policy.contact,
        use=dict(site.use.lines(site.inventory, cards=[view.uuid for view in cards.views], now=now, alive=site.alive)),
        public=policy.rules.page.public,
    )


def _ledger(site: Site, records: Records, looks: Sequence[PlaceLook]) -> Ledger:
    """The open reservations, with what their views are made of."""
    if not records.reservations:
        return Ledger(records, ())
    now = site.clock.now()
    frees = foreseen(site.settings.run_dir, site.policy(), now).frees
    past = site.inventory.closed_since(counts_since(site.policy(), now))
    return Ledger(
        records=records,
        rows=records.reservations,
        events=tuple(site.inventory.events(limit=_EVENTS)),
        line=lines(
            records,
            site.policy(),
            {one.place.host: partial(_readings, one) for one in looks},
            now=now,
            past=past,
            frees=frees,
        ),
    )


def _readings(one: PlaceLook) -> Readings:
    return one.look.readings
