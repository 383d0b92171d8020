"""Where a person's public keys come from, in order; the first place that has any decides."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.services.site import Site

COMMAND_S = 15.0
MADE = "keys"
"""The folder, below the state directory, of the private keys that lxgpu made because there was none."""


def keys_for(site: Site, person: str) -> tuple[PublicKey, ...]:
    """The keys of a person who gave none on the command line.

    The inventory's, else /etc/lxgpu/keys/NAME.pub, else the keys command's, else the host account's; with none at
    all a pair is made, and the place of the private key is said, to be handed over once.
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
    return (_made(site, person),)


def private_key_path(site: Site, person: str) -> Path:
    """Where the private key of a pair made by lxgpu lies."""
    return site.settings.state_dir / MADE / person


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


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
        home = Path(pwd.getpwnam(person).pw_dir)
    except KeyError:
        return ""
    return _file(home / ".ssh" / "authorized_keys")


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
