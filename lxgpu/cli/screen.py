"""The one way to the screen: data on stdout, all else on stderr. `print` stands in this module only."""

from __future__ import annotations

import os
import sys

from lxgpu.cli.streams import refused

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from typing import TextIO

    from lxgpu.cli.progress import Steps


def tame(text: str) -> str:
    """The text without what could command a terminal: a container's root has a say in some of what is told."""
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _write(text: str, stream: TextIO) -> None:
    print(text, file=stream, flush=True)


class Screen:
    """Where a run of lxgpu writes to, and how much. Made once, at the start of the command line."""

    def __init__(self, *, color: str = "auto", verbosity: int = 0, quiet: bool = False, debug: bool = False) -> None:
        self.color = color
        self.verbosity = verbosity
        self.quiet = quiet
        self.debug = debug
        self.document_written = False
        self.zone = ""  # of the times that were shown, until it was said

    def colored(self, stream: TextIO) -> bool:
        """Whether to colour what goes to a stream: --color, then NO_COLOR, FORCE_COLOR, TERM and the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()

    def data(self, text: str) -> None:
        """Write a result to stdout.

        Raises:
            OutputClosedError: nobody reads it any more.
            LxgpuError: `usage`: it cannot be written, as to a disk that is full.
        """
        try:
            _write(text, sys.stdout)
        except OSError as error:
            raise refused(error) from error

    def note(self, text: str) -> None:
        """Say something useful on stderr, unless --quiet."""
        if not self.quiet:
            _write(tame(text), sys.stderr)

    def warn(self, text: str) -> None:
        """Say something that must be seen."""
        self.alarm(f"warning: {text}", word="warning:")

    def alarm(self, text: str, *, word: str) -> None:
        """Write to stderr whatever the settings, with the leading word in bold red on a terminal."""
        text = tame(text)
        if self.colored(sys.stderr) and text.startswith(word):
            text = f"\033[1;31m{word}\033[0m{text[len(word) :]}"
        _write(text, sys.stderr)

    def steps(self, *, total: int | None = None) -> Steps:
        """A progress display; see `progress.Steps`."""
        from lxgpu.cli.progress import Steps  # noqa: PLC0415 -- for commands that take a while

        return Steps(self, total=total)
