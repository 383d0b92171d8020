"""Of a reservation whose times were changed, what was told about the former ones counts no more; pure."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.model.reservation import Reservation

STARTS, ENDS, AHEAD = "starts", "ends", "ahead-"
"""The keys of `Reservation.told`: its owner heard that it starts, or ends; likely victims, so many seconds before."""


def retold(old: Reservation, new: Reservation) -> Reservation:
    """The new one, of which people are told again as far as its times are others."""
    gone = {ENDS} if new.until != old.until else set[str]()
    if new.start != old.start:
        gone |= {key for key in new.told if key == STARTS or key.startswith(AHEAD)}
    told = {key: value for key, value in new.told.items() if key not in gone}
    return new if len(told) == len(new.told) else replace(new, told=told)
