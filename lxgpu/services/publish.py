"""What the daemon publishes, put together from one look at everything."""

from __future__ import annotations

from lxgpu.instants import show_instant
from lxgpu.model.gpu import Readings
from lxgpu.model.snapshot import Records
from lxgpu.services import looking
from lxgpu.services.calendarview import MOST, calendar, within
from lxgpu.services.cards import card_views
from lxgpu.services.foresight import foreseen
from lxgpu.services.headline import count, headline
from lxgpu.services.idleviews import with_idle
from lxgpu.services.overview import pool_view, status_view
from lxgpu.services.report import instance_views
from lxgpu.services.reservationviews import Ledger, reservation_views
from lxgpu.services.sampling import judge_all
from lxgpu.services.site import Site
from lxgpu.services.statusfile import DaemonView, Published
from lxgpu.services.waitline import counts_since, explained_line

_EVENTS = 1000
"""So far back it is looked for whom a reservation displaced."""


def published(site: Site, daemon: DaemonView) -> Published:
    """Look, and write down what the commands that only look would show."""
    now, policy = site.clock.now(), site.policy()
    look = looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=now)
    verdicts = judge_all(site, look.seen, look.records, policy) if look.seen else {}
    cards = card_views(
        look.records,
        look.seen,
        look.readings,
        mode=lambda uuid: policy.rules.card(uuid).mode.value,
        judged={slot.gpu: verdict.use.value for slot, verdict in verdicts.items()},
    )
    instances = instance_views(look.records, look.seen.sightings if look.seen else None, site.settings)
    instances = with_idle(instances, look.records, verdicts)
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
        reservations=reservation_views(_ledger(site, look.records, look.readings)),
        calendar=within(calendar(look.records, now=now, ahead=MOST)),
        timezone=policy.timezone,
        contact=policy.contact,
        use=dict(site.use.lines(site.inventory, cards=[view.uuid for view in cards.views], now=now, alive=site.alive)),
        public=policy.rules.page.public,
    )


def _ledger(site: Site, records: Records, readings: Readings) -> Ledger:
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
        line=explained_line(
            records, site.policy(), host=site.host, now=now, past=past, frees=frees, readings=lambda: readings
        ),
    )
