"""Rows as LXD's configuration carries them, so that a lost inventory loses no promise; and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from lxgpu.model.reservation import Keep, Kind, Reservation, ReservationState

_INSTANTS = frozenset({"created_at", "start", "until", "dies", "used_at", "since"})


def plain(row: Reservation | Keep) -> dict[str, object]:
    """A row as JSON, without the fields that have their usual value."""
    found: dict[str, object] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        usual = {} if field.default_factory is not MISSING else field.default
        if value != usual:
            found[field.name] = value.isoformat() if isinstance(value, datetime) else value
    return found


def reservation(facts: Mapping[str, Any]) -> Reservation:
    """The reservation that `plain` wrote; ValueError, KeyError or TypeError when it did not."""
    values = _read(facts)
    return Reservation(**{**values, "kind": Kind(values["kind"]), "state": ReservationState(values["state"])})


def keep(facts: Mapping[str, Any]) -> Keep:
    """The keep that `plain` wrote; errors as above."""
    return Keep(**_read(facts))


def _read(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value) if name in _INSTANTS and value is not None else value
        for name, value in facts.items()
    }
