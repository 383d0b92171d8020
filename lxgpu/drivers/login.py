"""SSH with one given key, to prove that a container can be used.

Only that key is tried: no agent, no keys of the account that runs lxgpu, no Kerberos. The banner is waited
for here, before paramiko gets the connection: a container's sshd comes up within a moment, and a
forwarder may accept and close until then. Sources: paramiko's API reference, RFC 4253 section 4.2.
"""

from __future__ import annotations

import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.ports import Ran

if TYPE_CHECKING:
    from paramiko import Channel, PKey, Transport

_POLL_S = 0.015
_TRY_S = 0.5
_BANNER = b"SSH-"
_MOST_OUTPUT = 1 << 20
_LOG = "lxgpu.ssh"


class ParamikoLogin:
    """`ports.Login` by paramiko, which is loaded at the first use (170 ms)."""

    def check(
        self,
        *,
        host: str,
        port: int,
        user: str,
        private_key: str,
        timeout_s: float,
        command: str,
        host_key: str | None = None,
    ) -> Ran:
        """Log in, run a command, return its status and its output (both streams in one text).

        `host_key` is the public line the host must show; without it any is taken, for this one check.

        Raises:
            LxgpuError: `unavailable`, with the real cause; `bad_key`: the private key cannot be read.
        """
        ends, where = time.monotonic() + timeout_s, f"{user}@{host}:{port}"
        key = _load_key(private_key)
        with _connected(host, port, ends) as connection, _session(connection, where, ends) as transport:
            _check_host(transport, host_key, where)
            _authenticate(transport, user, key, where, ends)
            return _run(transport, command, where, ends)

    def new_key(self, comment: str) -> tuple[str, str]:
        """A fresh ed25519 pair: (private key in OpenSSH form, public line)."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )

        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        return private, f"{public} {comment}".rstrip()


def _load_key(text: str) -> PKey:
    """The key, whatever its type: the text says OPENSSH for all of them."""
    from paramiko import ECDSAKey, Ed25519Key, RSAKey, SSHException  # noqa: PLC0415

    kinds: tuple[type[PKey], ...] = (Ed25519Key, ECDSAKey, RSAKey)
    reasons = []
    for kind in kinds:
        try:
            return kind.from_private_key(io.StringIO(text))
        except (SSHException, ValueError, IndexError) as error:
            reasons.append(f"as {kind.__name__}: {_said(error)}")
    raise LxgpuError(
        "bad_key",
        "the private key cannot be read",
        why=reasons,
        fix="an OpenSSH private key without a passphrase is needed",
    )


@contextmanager
def _connected(host: str, port: int, ends: float) -> Iterator[socket.socket]:
    """A connection on which an SSH server has begun to speak."""
    cause = "no time was given"
    while (left := ends - time.monotonic()) > 0:
        try:
            connection = socket.create_connection((host, port), timeout=min(_TRY_S, left))
        except OSError as error:
            cause = _words(error)
        else:
            cause = _banner_fault(connection, ends)
            if not cause:
                try:
                    yield connection
                finally:
                    connection.close()
                return
            connection.close()
        time.sleep(_POLL_S)
    raise _unavailable(f"{host}:{port}", f"no SSH server answered in time: {cause}")


def _banner_fault(connection: socket.socket, ends: float) -> str:
    """Wait for the first bytes and leave them there; what is wrong, or an empty text."""
    connection.settimeout(max(0.01, ends - time.monotonic()))
    try:
        first = connection.recv(len(_BANNER), socket.MSG_PEEK)
    except OSError as error:
        return "connected, but nothing was said" if isinstance(error, TimeoutError) else _words(error)
    if not first:
        return "the connection was closed at once"
    return "" if _BANNER.startswith(first) else f"what answers there is no SSH server, it said {first!r}"


@contextmanager
def _session(connection: socket.socket, where: str, ends: float) -> Iterator[Transport]:
    from paramiko import SSHException, Transport  # noqa: PLC0415

    # Its thread would write tracebacks of refused connections to stderr; causes are told by the errors here.
    log = logging.getLogger(_LOG)
    log.propagate = False
    log.handlers = log.handlers or [logging.NullHandler()]
    transport = Transport(connection)
    transport.set_log_channel(_LOG)
    transport.daemon = True
    try:
        transport.start_client(timeout=_left(ends, where))
        yield transport
    except (SSHException, EOFError, OSError) as error:
        raise _unavailable(where, f"the connection failed: {_said(error)}") from error
    finally:
        transport.close()


def _check_host(transport: Transport, expected: str | None, where: str) -> None:
    if expected is None:
        return
    shown = transport.get_remote_server_key()
    if [shown.get_name(), shown.get_base64()] != expected.split()[:2]:
        raise _unavailable(where, f"another host answers there: it shows the key {shown.fingerprint}")


def _authenticate(transport: Transport, user: str, key: PKey, where: str, ends: float) -> None:
    from paramiko import AuthenticationException, BadAuthenticationType  # noqa: PLC0415

    transport.auth_timeout = _left(ends, where)
    try:
        rest = transport.auth_publickey(user, key)
    except BadAuthenticationType as error:
        raise _unavailable(where, f"keys are not accepted there, only {', '.join(error.allowed_types)}") from error
    except AuthenticationException as error:
        if not transport.is_active():  # paramiko has one exception for both
            raise _unavailable(where, "the server ended the connection when it was shown the key") from error
        raise _refused(where, key) from error
    if rest:
        raise _unavailable(where, f"the key was accepted, but more is asked for: {', '.join(rest)}")


def _run(transport: Transport, command: str, where: str, ends: float) -> Ran:
    channel = transport.open_session(timeout=_left(ends, where))
    channel.set_combine_stderr(combine=True)
    channel.settimeout(_left(ends, where))
    channel.exec_command(command)
    output = _read(channel, where, ends)
    if not channel.status_event.wait(_left(ends, where)):
        raise _unavailable(where, f"`{command}` did not end in time")
    return Ran(status=channel.exit_status, output=output)


def _read(channel: Channel, where: str, ends: float) -> str:
    parts: list[bytes] = []
    while sum(map(len, parts)) < _MOST_OUTPUT:
        channel.settimeout(_left(ends, where))
        part = channel.recv(1 << 16)
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode(errors="replace")


def _left(ends: float, where: str) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise _unavailable(where, "the time was over before the login ended")
    return left


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer from the address"
    return (error.strerror or _said(error)).lower()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _refused(where: str, key: PKey) -> LxgpuError:
    return LxgpuError(
        "unavailable",
        f"SSH login as {where} was refused",
        why=f"the server does not accept the key {key.fingerprint} ({key.get_name()})",
        fix="inside, ~/.ssh must be 0700 and authorized_keys 0600, both the user's, and the account not locked",
    )


def _unavailable(where: str, why: str) -> LxgpuError:
    return LxgpuError("unavailable", f"SSH login as {where} failed", why=why)
