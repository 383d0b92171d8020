"""Pages that commands write: can it be written, is said before the work; written whole after it.

`-` is standard output, where a page stands alone. A file takes the place of an older one at once or not at all. What a
link leads to is left alone: who may make links in a folder would else choose which file root replaces.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from lxgpu.cli.params import Checked
from lxgpu.cli.render import Output
from lxgpu.cli.screen import tame
from lxgpu.errors import LxgpuError
from lxgpu.regular import NO_FILE

STDOUT = Path("/dev/stdout")


class PageFile(Checked):
    """The type of `--html`; TAB offers files."""

    def __init__(self) -> None:
        super().__init__("file", lambda text: STDOUT if text == "-" else Path(text))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """As for any file."""
        return [CompletionItem(incomplete, type="file")]


def check(out: Output, path: Path, inputs: Sequence[Path] = ()) -> None:
    """See that a page can be written, before anything takes its time; `inputs` are files that it must not replace.

    Raises:
        LxgpuError: `usage`: the file cannot be written, or is one of the inputs; standard output is wanted for a list.
    """
    if path == STDOUT:
        if out.form != "table":
            why, fix = f"-o {out.form} is for standard output too", "--html FILE, or no -o"
            raise LxgpuError("usage", "two things cannot be written to standard output", why=why, fix=fix)
        return
    try:
        why = _obstacle(path, inputs)
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from error
    if why:
        raise _unwritten(path, why)


def write(out: Output, path: Path, text: str) -> None:
    """Write a page, and tell where it is.

    Raises:
        LxgpuError: `usage`: the file cannot be written.
    """
    if path == STDOUT:
        out.screen.data(tame(text))
        return
    try:
        replace(path, tame(text))
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from error
    out.screen.note(f"page: {path}")


def replace(path: Path, text: str) -> None:
    """Put the text there at once or not at all, with the owner and the mode that an older page has."""
    old, fresh = _found(path), path.with_name(f".lxgpu-{secrets.token_hex(8)}")
    try:
        with fresh.open("x", encoding="utf-8") as file:
            if old is not None and stat.S_ISREG(old.st_mode):
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.write(text)
        fresh.replace(path)
    except BaseException:  # Ctrl-C too
        fresh.unlink(missing_ok=True)
        raise


def _obstacle(path: Path, inputs: Sequence[Path]) -> str:
    """Why the page cannot be written there, or nothing."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    found = _found(path)
    if found is not None:
        if path.exists() and (taken := next((one for one in inputs if one.exists() and path.samefile(one)), None)):
            return f"it is {taken}, which is read here" if taken != path else "it is read here, and would be lost"
        if stat.S_ISDIR(found.st_mode):
            return "it is a folder"
        if stat.S_ISLNK(found.st_mode):
            return f"it is a link to {path.readlink()}, and what a link leads to is not replaced"
        if not stat.S_ISREG(found.st_mode):
            return NO_FILE
    may = os.access(path.parent, os.W_OK) and (found is None or os.access(path, os.W_OK))
    return "" if may else "you may not write there"


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _unwritten(path: Path, why: str) -> LxgpuError:
    return LxgpuError("usage", f"--html: {path} cannot be written", why=why, fix="name another file, or - for stdout")
