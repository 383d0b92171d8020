"""A real container-like instance for the drivers that look into one."""

from __future__ import annotations

import pytest
from plain_instance import plain_instance

from lxgpu.drivers.cgroups import Cgroups
from lxgpu.model.gpu import DeviceNode

ZERO = DeviceNode("zero", 1, 5)
"""Stands for a card: /dev/zero can be opened and mapped."""
FULL = DeviceNode("dri/full", 1, 7)


@pytest.fixture
def card():
    """The node that stands for a card."""
    return ZERO


@pytest.fixture
def other():
    """The node that stands for another card."""
    return FULL


@pytest.fixture
def inside():
    """A running instance with both nodes in its /dev."""
    with plain_instance([ZERO, FULL]) as instance:
        yield instance


@pytest.fixture
def cgroups():
    """This host's cgroups."""
    return Cgroups()
