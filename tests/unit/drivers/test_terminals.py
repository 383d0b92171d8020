"""Messages to terminals: what may be in them, and what counts as a terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.drivers.terminals import plain_text, tell_terminals


@given(st.text(max_size=300))
def test_nothing_in_a_message_steers_a_terminal(text):
    """Whatever a name or a reason contains, only printable characters and line ends go out."""
    assert all(char == "\n" or char.isprintable() for char in plain_text(text))


@given(st.text(alphabet=st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=200))
def test_plain_words_are_kept(text):
    """What was plain before is the same after."""
    assert plain_text(text) == text


def test_lines_stay_lines_and_escapes_go():
    """Escape, bell, carriage return and a direction mark are shown as question marks or as line ends."""
    assert plain_text("two\nlines") == "two\nlines"
    assert plain_text("\x1b[2Jgone\x07 \u202etxt") == "?[2Jgone? ?txt"
    assert plain_text("over\rwritten") == "over\nwritten"


def test_a_message_is_never_longer_than_a_terminal_takes_at_once():
    """A terminal takes 4096 bytes in one go; the longest text with the widest characters stays below."""
    assert len(plain_text("\U0001f600" * 5000).encode()) < 4096


def test_what_is_no_terminal_is_not_written(inside):
    """A file or another device that calls itself a terminal gets nothing, and counts as nothing."""
    pts = Path(f"/proc/{inside.init}/root/dev/pts")
    script = (
        "mount -t tmpfs t /dev/pts; touch /dev/pts/0; mknod /dev/pts/1 c 1 5; ln -s 1 /dev/pts/2; mkfifo /dev/pts/3"
    )
    argv = ["nsenter", f"--target={inside.init}", "--mount", "--root", "sh", "-ec", script]
    subprocess.run(argv, check=True)
    assert tell_terminals(inside.init, "hello") == (0, 0)
    assert (pts / "0").read_text() == ""
