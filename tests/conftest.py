"""Helpers that several tests share lie beside this file and are imported by their name."""

import pytest

pytest.register_assert_rewrite("house")
