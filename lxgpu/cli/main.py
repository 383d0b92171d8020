"""The entry point: finds the command, runs it, and turns every error into words and an exit status.

This is the one error boundary of the command line. The plain help page and the version are answered without
importing anything else; commands load their modules when called.
"""

from __future__ import annotations

import os
import sys

from lxgpu import __version__
from lxgpu.cli import commands

TYPE_CHECKING = False  # importing `typing` would cost as much as Python's own start
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from lxgpu.cli.screen import Screen
    from lxgpu.errors import LxgpuError

CLOSED_PIPE = 141
"""What a shell reports for a program that wrote to a closed pipe (128 + SIGPIPE)."""

INTERRUPTED = 130
"""As `errors.Exit.INTERRUPTED`, without loading it."""


def main() -> NoReturn:
    """The `lxgpu` command."""
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the boundary, while something is loaded
        status = INTERRUPTED
    _end(status)


def _end(status: int) -> NoReturn:
    """Leave with `status`, whatever threads in the background are at."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        from contextlib import suppress  # noqa: PLC0415 -- not for --help

        # Only daemons are left: one that loads a library, or waits in the kernel. Python would end such a thread in
        # the midst of that library's C++ code, to which glibc answers by aborting the process, status or no status.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # whoever read went away; it was said before, if at all
                stream.flush()
        os._exit(status)
    sys.exit(status)


def run(argv: Sequence[str]) -> int:
    """Runs one command line and returns its exit status."""
    words = list(argv)
    _open_closed()
    if "_LXGPU_COMPLETE" not in os.environ:
        if words in ([], ["-h"], ["--help"]):
            return _show(commands.help_page())
        if words == ["--version"]:
            return _show(f"lxgpu {__version__}")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are text files here
    return guarded(words, _invoke)


def _open_closed() -> None:
    """In place of streams that were closed (`>&-`) those that lead nowhere: else the next file would be in their place.

    Python gives each file the lowest free number, so that the number is right as well.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 -- to the end; pathlib costs


def _invoke(words: list[str], screen: Screen) -> int:
    if words[:1] == ["ls"]:
        from lxgpu.cli.short import ls  # noqa: PLC0415

        status = ls(words[1:], screen)
        if status is not None:
            return status
    from lxgpu.cli.group import invoke  # noqa: PLC0415 -- click is a third of the time of a command

    return invoke(words, screen)


def _show(text: str) -> int:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return _quiet_end()
    except OSError:
        return guarded([text], _show_again)  # which fails again, in words
    return 0


def _show_again(words: list[str], screen: Screen) -> int:
    screen.data(words[0])
    return 0


def guarded(words: list[str], invoke: Callable[[list[str], Screen], int]) -> int:
    """Runs `invoke` on the words of a command line and returns the exit status, whatever it raises."""
    from lxgpu.cli.screen import Screen  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.streams import OutputClosedError  # noqa: PLC0415

    screen = Screen()
    try:
        _check_text(words)
        return invoke(words, screen)
    except OutputClosedError:
        return _quiet_end()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the one boundary: every error ends in words
        return _report(error, words, screen)
    finally:
        _wake_daemon()


def _check_text(words: list[str]) -> None:
    """Refuse words that are no text: nothing could keep them, and no terminal show them.

    Raises:
        LxgpuError: `usage`.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from lxgpu.errors import LxgpuError  # noqa: PLC0415 -- for the error only

            shown = word.encode("utf-8", "backslashreplace").decode()[:80]
            raise LxgpuError(
                "usage",
                f"a word of the command is no UTF-8 text: {shown}",
                why="what is kept and shown is UTF-8",
                fix="write it anew, in a terminal whose locale is UTF-8",
            ) from error


def _wake_daemon() -> None:
    """Let the daemon look at once at what a command has written; whether there is one is no matter of the command."""
    store = sys.modules.get("lxgpu.inventory.store")
    if store is None or not store.written():
        return
    from contextlib import suppress  # noqa: PLC0415 -- only after a change

    with suppress(Exception):
        from lxgpu import resident  # noqa: PLC0415 -- only after a change

        resident.poke()


def _quiet_end() -> int:
    from lxgpu.cli.streams import let_go  # noqa: PLC0415 -- only when things go wrong

    let_go()
    return CLOSED_PIPE


def _report(error: BaseException, words: list[str], screen: Screen) -> int:
    from lxgpu.cli.failure import error_object, error_text, wants_json, with_fix  # noqa: PLC0415 -- only when things go wrong

    if screen.debug or os.environ.get("LXGPU_DEBUG"):
        import traceback  # noqa: PLC0415

        screen.alarm("".join(traceback.format_exception(error)).rstrip(), word="")
    told = with_fix(_translated(error, screen), words)
    screen.alarm(error_text(told), word=f"error[{told.code}]")
    if wants_json(words) and not screen.document_written:
        from lxgpu.cli.documents import json_text  # noqa: PLC0415
        from lxgpu.plain import plain  # noqa: PLC0415

        screen.data(json_text({"error": plain(error_object(told))}))
    return int(told.status)


def _translated(error: BaseException, screen: Screen) -> LxgpuError:
    """Every error as one that a person can act on."""
    from lxgpu.errors import LxgpuError  # noqa: PLC0415

    if isinstance(error, LxgpuError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return LxgpuError(
            "interrupted",
            "stopped by Ctrl-C",
            why="a change that was begun stands in the journal, and the next command finishes or undoes it",
        )
    from lxgpu.cli.group import usage_error  # noqa: PLC0415

    told = usage_error(error)
    if told is not None:
        return told
    hint = "report it with the lines above" if screen.debug else "run it again with --debug and report what it says"
    return LxgpuError("internal", f"{type(error).__name__}: {error}", why="this is a fault in lxgpu", fix=hint)
