"""How this host reaches package registries: the settings of its own pip and apt, for a container that installs.

Nothing of it stays in what is installed: variables last as long as one program, certificates are taken away after it.
What names a file or a folder of this host means nothing inside, and is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path

from lxgpu.ports import Registries

FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
"""Of pip, on Linux; a later one counts more, and a variable most."""
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Where Debian and Red Hat keep the certificates that the host trusts."""
HANDED = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_CERTIFICATE = "cert"
_PROXY = re.compile(r"(?i)(?:https?|no|all)_proxy")


def host_registries(
    environ: Mapping[str, str] = os.environ, *, files: tuple[str, ...] = FILES, bundles: tuple[str, ...] = BUNDLES
) -> Registries:
    """What pip's files and variables and the proxies of this host say; where they say nothing, the usual registries.

    Args:
        environ: the variables of this process.
        files: pip's files, the strongest last; those that are missing or broken say nothing.
        bundles: where the host's certificates may lie, if pip names no others.
    """
    said = {key: value for name in files for key, value in _read(Path(name).expanduser()).items()}
    said |= {key: environ[variable] for key in (*HANDED, _CERTIFICATE) if environ.get(variable := _variable(key))}
    found = {_variable(key): text for key in HANDED if (text := _usable(said.get(key, "")))}
    found |= {key: value for key, value in environ.items() if _PROXY.fullmatch(key) and value}
    own = (said[_CERTIFICATE],) if said.get(_CERTIFICATE) else ()
    return Registries(environment=found, certificates=next(_contents((*own, *bundles)), b""))


def _read(path: Path) -> dict[str, str]:
    """The options of a pip.conf that count for `pip install`."""
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (ConfigError, UnicodeDecodeError, OSError):
        return {}
    sections = [name for name in ("global", "install") if parser.has_section(name)]
    return {key.replace("_", "-"): value for name in sections for key, value in parser.items(name)}


def _variable(key: str) -> str:
    return f"PIP_{key.upper().replace('-', '_')}"


def _usable(text: str) -> str:
    """The words that mean the same inside: no address of a file, no path."""
    return " ".join(word for word in text.split() if not word.startswith(("file:", "/", ".", "~")))


def _contents(paths: tuple[str, ...]) -> Iterator[bytes]:
    for path in paths:
        try:
            yield Path(path).expanduser().read_bytes()
        except OSError:
            continue
