"""Alerts by the channels: what stands open, told by the outbox in the transaction that puts it into the history.

The history is the memory: whatever ends this process, the next one finds there which alerts were told and not over.
"""

from __future__ import annotations

from datetime import datetime
from threading import Lock

from lxgpu.policy.alerts import Alert, AlertKind, Sight, Standing, Telling, Word, follow
from lxgpu.services.notices import notice, send_due
from lxgpu.services.site import Site

KIND = "alert"
"""The kind of their notices."""
_LOOKED_BACK = 1000
"""So many of the newest alerts in the history are looked at: what stands open is repeated every day."""


class Alerts:
    """What the admins are told of by one process; threads may take turns."""

    def __init__(self) -> None:
        self._standing: tuple[Standing, ...] | None = None
        self._lock = Lock()

    def look(self, site: Site, sight: Sight) -> None:
        """Tell what is new, lasts or is over.

        Raises:
            LxgpuError: the inventory cannot be read or written; then nothing was told, and the next look tells it.
        """
        with self._lock:
            before = standing(site) if self._standing is None else self._standing
            now = site.clock.now()
            left, said = follow(before, sight, now=now, again_s=site.policy().rules.alerts.again_s)
            if said:
                _write(site, said, now)
            self._standing = left
        if said:
            send_due(site)


def standing(site: Site) -> tuple[Standing, ...]:
    """The alerts that the history says are open: told, and not over."""
    newest: dict[tuple[str, str], Standing | None] = {}
    for event in site.inventory.events(kinds=list(Word), limit=_LOOKED_BACK):
        key = (event.rule, event.subject)
        if key in newest or event.rule not in set(AlertKind):
            continue
        told = event.detail
        gpus = told.get("gpus")
        cards = tuple(map(str, gpus)) if isinstance(gpus, list | tuple) else ()
        alert = Alert(AlertKind(event.rule), event.subject, str(told.get("why", "")), cards)
        since = datetime.fromisoformat(str(told["since"]))
        newest[key] = None if event.kind == Word.OVER else Standing(alert, since, told_at=event.at)
    return tuple(one for one in newest.values() if one is not None)


def _write(site: Site, said: tuple[Telling, ...], now: datetime) -> None:
    with site.write() as tx:
        for one in said:
            alert = one.alert
            detail = {"since": one.since.isoformat(), "why": alert.why, "gpus": list(alert.gpus)}
            tx.event(one.word.value, alert.subject, rule=alert.kind.value, detail=detail)
            facts = {
                "word": one.word.value,
                "alert": alert.kind.value,
                "subject": alert.subject,
                "gpus": alert.gpus or None,
                "since": one.since,
                "why": alert.why,
            }
            tx.put(notice(KIND, instance="", person="", about=f"{alert.kind}:{alert.subject}", facts=facts, now=now))
