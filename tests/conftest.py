"""Helpers that several tests share lie beside this file and are imported by their name."""

import os
import signal

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("house", "agenda_worlds")

# A loaded machine is slow, which is no fault of what is tested; a failing example is printed, to be run again.
settings.register_profile("lxgpu", deadline=None, print_blob=True)
# What decides whether a change comes in is the same for all; who works on it looks further each time.
settings.register_profile("ci", settings.get_profile("lxgpu"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "lxgpu")

# Started in the background by a shell, Python and all that it starts would be deaf to Ctrl-C, which tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
