"""Public SSH keys as people hand them in: many in one text, mended where that is safe, refused with the reason.

Mended: CRLF, a missing newline at the end, a byte order mark, space around. Refused: private keys, other formats,
certificates, DSA, a type that the key itself contradicts, keys cut by a mail program. Every bad line is told at once,
by its number; what a line with a private key says is never repeated.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256

from lxgpu.config.keyblob import blob_fault
from lxgpu.errors import LxgpuError, Problem

KEY_TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
"""The types of OpenSSH that a login can use."""
OPTIONS = frozenset(
    {
        "agent-forwarding", "cert-authority", "command", "environment", "expiry-time", "from", "no-agent-forwarding",
        "no-port-forwarding", "no-pty", "no-touch-required", "no-user-rc", "no-x11-forwarding", "permitlisten",
        "permitopen", "port-forwarding", "principals", "pty", "restrict", "tunnel", "user-rc", "verify-required",
        "x11-forwarding",
    }
)  # fmt: skip
"""What sshd knows before a key; it passes over a whole line with any other."""
LONGEST_LINE = 16384
MOST_KEYS = 200

_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa|rsa|webauthn)-[a-z0-9@.-]+")
_TWO_IN_ONE = re.compile(r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp[0-9]{3}|@openssh\.com) AAAA")
_BREAK = re.compile(r"\r\n|\r|\n")
# Also the first bytes of OpenSSH's private format ("openssh-key-v1"), for a text whose header line was lost.
_PRIVATE = re.compile(r"^-{4,5} ?BEGIN .*PRIVATE KEY|^PuTTY-User-Key-File|b3BlbnNzaC1rZXktdjE")
_BLOCK_END = re.compile(r"-{4,5} ?END |^Private-MAC:")
_OPTION = re.compile(r'([A-Za-z0-9-]+)(?:="(?:[^"\\]|\\.)*")?(?:,|$)')


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One public key. `options` and `comment` are kept as they were written; `line` is its number in the text."""

    type: str
    blob: bytes
    comment: str = ""
    options: str = ""
    line: int = 1

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`, as `ssh-keygen -l` prints it."""
        return "SHA256:" + b64encode(sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def text(self) -> str:
        """The whole authorized_keys line, without its newline."""
        parts = (self.options, self.type, b64encode(self.blob).decode(), self.comment)
        return " ".join(part for part in parts if part)


def parse_keys(text: str, *, name: str = "") -> tuple[PublicKey, ...]:
    """Reads public keys, one a line; empty lines and lines that begin with # are passed over, repeated keys dropped.

    Args:
        text: what was handed in.
        name: what to call it in messages: a file, or empty.

    Raises:
        LxgpuError: `bad_key`, with every bad line in `problems`; also when there is no key at all.
    """
    keys: dict[bytes, PublicKey] = {}
    faults: list[tuple[int, str]] = []
    skipping = False
    for number, raw in enumerate(_BREAK.split(text.removeprefix("\ufeff")), start=1):
        line = raw.strip(" \t\f\v")
        if skipping or not line or line.startswith("#"):
            skipping = skipping and not _BLOCK_END.search(line)
            continue
        foreign = _foreign(line)
        if foreign:
            faults.append((number, foreign))
            skipping = not _BLOCK_END.search(line)
            continue
        try:
            key = _parse_line(line, number)
        except ValueError as error:
            faults.append((number, str(error)))
        else:
            keys.setdefault(key.blob, key)
    if len(keys) > MOST_KEYS:
        faults.append((1, f"{len(keys)} keys; {MOST_KEYS} are the most"))
    if faults or not keys:
        raise _refusal(faults, name)
    return tuple(keys.values())


def _refusal(faults: list[tuple[int, str]], name: str) -> LxgpuError:
    what = name or "the text"
    if not faults:
        return LxgpuError("bad_key", f"there is no key in {what}", fix="a key is one line: ssh-ed25519 AAAA… comment")
    private = any("private" in text for _, text in faults)
    where = f"{name}:" if name else "line "
    return LxgpuError(
        "bad_key",
        f"{what} holds a private key" if private else f"{what} is no list of public keys",
        fix="give the .pub file, and make a new pair: whoever saw this text can log in with the key"
        if private
        else "a key is one line: ssh-ed25519 AAAA… comment; `ssh-keygen -t ed25519` makes a pair",
        problems=[Problem(text=text, where=f"{where}{number}") for number, text in faults],
    )


def _foreign(line: str) -> str:
    """What is wrong with the first line of another format; empty for a line that may be a key."""
    if _PRIVATE.search(line):
        return "a private key; it must never be given away"
    if "BEGIN SSH2 PUBLIC KEY" in line:
        return "the format of RFC 4716; `ssh-keygen -i -f FILE` prints it as OpenSSH wants it"
    if "BEGIN RSA PUBLIC KEY" in line:
        return "the PEM format; `ssh-keygen -i -m PEM -f FILE` prints it as OpenSSH wants it"
    if "BEGIN PUBLIC KEY" in line:
        return "the PKCS8 format; `ssh-keygen -i -m PKCS8 -f FILE` prints it as OpenSSH wants it"
    if line.startswith("-----BEGIN "):
        return "no key of OpenSSH but something else in armour"
    return ""


def _parse_line(line: str, number: int) -> PublicKey:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE} characters")
    if not line.replace("\t", " ").isprintable():
        raise ValueError("a control character in it")
    first, rest = _word(line)
    options = ""
    if not _is_type(first):
        options, (first, rest) = first, _word(rest)
        if not _is_type(first):
            raise ValueError(_no_type(line))
        _check_options(options)
    encoded, comment = _word(rest)
    if not encoded:
        raise ValueError("the key itself is missing behind its type; was the line cut?")
    if _TWO_IN_ONE.search(comment):
        raise ValueError("two keys in one line; each needs its own")
    return PublicKey(type=first, blob=_decode(first, encoded), comment=comment, options=options, line=number)


def _is_type(word: str) -> bool:
    return word in KEY_TYPES or bool(_TYPE.fullmatch(word))


def _check_options(options: str) -> None:
    place = 0
    while place < len(options):
        match = _OPTION.match(options, place)
        if match is None or match[1].lower() not in OPTIONS:
            raise ValueError(f"sshd knows no such option before the key: {options[place : place + 40]}")
        place = match.end()


def _no_type(line: str) -> str:
    if line.startswith("AAAA"):
        return "the type is missing before the key, such as ssh-ed25519"
    if re.fullmatch(r"[A-Za-z0-9+/]{20,}={0,2}", line):
        return "part of a key; a key is one line, was it wrapped by a mail program?"
    if line.count('"') % 2:
        return "a quote of the options is not closed"
    return "no public key"


def _word(line: str) -> tuple[str, str]:
    """The first word and the rest; space inside double quotes belongs to the word, as options need it."""
    quoted = False
    place = 0
    while place < len(line):
        char = line[place]
        if char == "\\" and line[place + 1 : place + 2] == '"':
            place += 1
        elif char == '"':
            quoted = not quoted
        elif char in " \t" and not quoted:
            break
        place += 1
    return line[:place], line[place:].strip(" \t")


def _decode(kind: str, encoded: str) -> bytes:
    if "-cert-v0" in kind:
        raise ValueError("a certificate; give the public key it was made from")
    if kind == "ssh-dss":
        raise ValueError("a DSA key, which OpenSSH does not accept any more; make an ed25519 key")
    try:
        blob = b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError("the key is no base64; was the line cut or wrapped?") from error
    fault = blob_fault(kind, blob)
    if not fault and kind not in KEY_TYPES:
        fault = f"the type {kind} is not one that a login can use: {', '.join(KEY_TYPES)}"
    if fault:
        raise ValueError(fault)
    return blob
