"""The inside of a public key: whether the bytes are what the type before them says.

The layouts are those of RFC 4253, RFC 5656, RFC 8709 and of OpenSSH's PROTOCOL.u2f.
"""

from __future__ import annotations

_ED25519_BYTES = 32
_SMALLEST_RSA = 1024
_CURVE_BYTES = {"nistp256": 65, "nistp384": 97, "nistp521": 133}
_UNCOMPRESSED = 4


def blob_fault(kind: str, blob: bytes) -> str:
    """Returns what is wrong with a key's bytes, or an empty text.

    Args:
        kind: the type written before the key.
        blob: the key, decoded from base64.
    """
    parts = _strings(blob)
    if parts is None or not parts:
        return "the key is cut or damaged: its bytes do not add up"
    inner = parts[0].decode("ascii", errors="replace")
    if inner != kind:
        shown = inner if inner.isprintable() and len(inner) < 60 else "something else"  # noqa: PLR2004 -- a glance
        return f"the line says {kind}, the key itself says {shown}"
    return _body_fault(kind, parts[1:])


def _body_fault(kind: str, body: list[bytes]) -> str:
    damaged = "the key is damaged: its parts do not fit its type"
    match kind:
        case "ssh-ed25519":
            good = len(body) == 1 and len(body[0]) == _ED25519_BYTES
        case "sk-ssh-ed25519@openssh.com":
            good = len(body) == 2 and len(body[0]) == _ED25519_BYTES and bool(body[1])  # noqa: PLR2004 -- key, application
        case "ssh-rsa":
            if len(body) != 2 or not body[0]:  # noqa: PLR2004 -- exponent, modulus
                return damaged
            bits = int.from_bytes(body[1], "big").bit_length()
            return f"an RSA key of {bits} bits is too weak, sshd refuses it" if bits < _SMALLEST_RSA else ""
        case "sk-ecdsa-sha2-nistp256@openssh.com":
            good = len(body) == 3 and _good_point(body[0], body[1]) and bool(body[2])  # noqa: PLR2004 -- curve, point, application
        case _ if kind.startswith("ecdsa-sha2-"):
            curve = kind.removeprefix("ecdsa-sha2-").encode()
            good = len(body) == 2 and body[0] == curve and _good_point(body[0], body[1])  # noqa: PLR2004 -- curve, point
        case _:
            good = True
    return "" if good else damaged


def _good_point(curve: bytes, point: bytes) -> bool:
    return len(point) == _CURVE_BYTES.get(curve.decode("ascii", errors="replace")) and point[0] == _UNCOMPRESSED


def _strings(blob: bytes) -> list[bytes] | None:
    """The length-prefixed strings of a key; None when a length goes beyond the end."""
    parts, place = [], 0
    while place < len(blob):
        length = int.from_bytes(blob[place : place + 4], "big")
        start, place = place + 4, place + 4 + length
        if place > len(blob):
            return None
        parts.append(blob[start:place])
    return parts
