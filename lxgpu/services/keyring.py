"""Where a person's public keys come from, in order; the first place that has any decides."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.instants import format_utc
from lxgpu.regular import open_regular
from lxgpu.services.invitations import open_until
from lxgpu.services.site import Site

COMMAND_S = 15.0
_LONGEST = 1024**2
MADE = "keys"
"""The folder, below the state directory, of the private keys that lxgpu made because there was none."""


def keys_for(site: Site, person: str) -> tuple[PublicKey, ...]:
    """The keys of a person who gave none on the command line.

    The inventory's, else /etc/lxgpu/keys/NAME.pub, else the keys command's, else the host account's. With none at
    all a pair is made, and the place of the private key is said, to be handed over once; but not for who was invited to
    bring one, who gets none until then.
    """
    known = [key.line for key in site.inventory.read().keys if key.person == person]
    if known:
        return parse_keys("\n".join(known))
    sources: tuple[Callable[[], str], ...] = (
        lambda: _file(site.settings.keys / f"{person}.pub"),
        lambda: _command(site, person),
        lambda: _account(person),
    )
    for source in sources:
        text = source()
        if text.strip():
            return parse_keys(text)
    until = open_until(site, person)
    if until is None:
        return (_made(site, person),)
    site.say(f"{person} has no key yet, and is invited to bring one until {format_utc(until)}: none is made")
    return ()


def private_key_path(site: Site, person: str) -> Path:
    """Where the private key of a pair made by lxgpu lies."""
    return site.settings.state_dir / MADE / person


def _file(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_LONGEST).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        why = error.strerror or str(error)
        raise LxgpuError("bad_file", f"{path} cannot be read", why=why, fix=f"mend or remove {path}") from error


def _command(site: Site, person: str) -> str:
    words = site.settings.keys_command
    if not words:
        return ""
    try:
        ran = subprocess.run([*words, person], capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LxgpuError(
            "unavailable", f"the keys command failed: {error}", fix="mend keys_command in config.yaml"
        ) from error
    if ran.returncode != 0:
        raise LxgpuError(
            "unavailable",
            f"the keys command ended with status {ran.returncode}",
            why=ran.stderr.strip().splitlines()[-3:],
            fix=f"run it by hand: {' '.join(words)} {person}; or give --ssh-key",
        )
    return ran.stdout


def _account(person: str) -> str:
    try:
        entry = pwd.getpwnam(person)
    except KeyError:
        return ""
    return own_text(Path(entry.pw_dir) / ".ssh" / "authorized_keys", uid=entry.pw_uid)


def own_text(path: Path, *, uid: int) -> str:
    """A file in a person's home, read by root: only a plain file of theirs, or one that everybody may read.

    They may have put a link there to what is not theirs, or a pipe that nobody writes to. Empty where there is none;
    error `not_allowed`.
    """
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise _not_theirs(path, error.strerror or str(error)) from error
    try:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode) or (found.st_uid != uid and not found.st_mode & stat.S_IROTH):
            raise _not_theirs(path, "it is no plain file of theirs")
        with open(f"/proc/self/fd/{place}", "rb") as file:  # noqa: PTH123 - a descriptor, no path
            return file.read(_LONGEST).decode(errors="replace")
    except OSError as error:
        raise _not_theirs(path, error.strerror or str(error)) from error
    finally:
        os.close(place)


def _not_theirs(path: Path, why: str) -> LxgpuError:
    return LxgpuError(
        "not_allowed", f"{path} cannot be taken for their keys", why=why, fix="give the keys: --ssh-key FILE"
    )


@contextmanager
def only_if_made(site: Site, person: str) -> Iterator[None]:
    """What is done within may make a pair for the person; if it fails, and they have no key then, the pair goes too."""
    path = private_key_path(site, person)
    before = path.exists()
    try:
        yield
    except BaseException:
        with suppress(LxgpuError):  # an inventory that cannot be read says nothing against the pair
            if not before and not any(key.person == person for key in site.inventory.read().keys):
                path.unlink(missing_ok=True)
                path.with_suffix(".pub").unlink(missing_ok=True)
        raise


def _made(site: Site, person: str) -> PublicKey:
    path = private_key_path(site, person)
    public = path.with_suffix(".pub")
    if not path.exists():
        private_text, public_line = site.login.new_key(f"{person}, made by lxgpu")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        public.write_text(public_line + "\n", encoding="utf-8")
        fresh = path.with_suffix(".new")  # a key that was cut short would never let anybody in
        fresh.touch(mode=0o600)
        fresh.write_text(private_text, encoding="utf-8")
        fresh.replace(path)
    site.say(f"{person} has no key, so one was made; hand over the private key, then delete it: {path}")
    return parse_keys(public.read_text(encoding="utf-8"))[0]
