"""Helpers that several tests share lie beside this file and are imported by their name."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("house")

# A loaded machine is slow, which is no fault of what is tested; a failing example is printed so that it can be run again.
settings.register_profile("lxgpu", deadline=None, print_blob=True)
settings.load_profile("lxgpu")
