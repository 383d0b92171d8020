"""A changed row is what `dataclasses.replace` makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lxgpu.model.changed import changed
from lxgpu.model.gpu import DeviceNode
from lxgpu.model.reservation import Kind, Reservation, ReservationState

ROW = Reservation("r1", "web", "ann", Kind.REQUEST, 2, ReservationState.WAITING, datetime(2027, 3, 1, tzinfo=UTC), 60)


def test_the_named_fields_are_changed_and_the_others_kept() -> None:
    """Of a row of many fields and of one of a few; the row before is as it was."""
    before = replace(ROW)
    assert changed(ROW, gpus=3, told={"asap": True}) == replace(ROW, gpus=3, told={"asap": True})
    assert changed(DeviceNode("nvidia0", 195, 0), minor=1) == DeviceNode("nvidia0", 195, 1)
    assert before == ROW


def test_a_field_that_is_not_there_is_an_error() -> None:
    """A slip of the pen does not pass."""
    with pytest.raises(KeyError, match="gpu"):
        changed(ROW, gpu=3)
