"""SSH by paramiko, which is known here alone and loaded at the first use (170 ms).

The banner is waited for here, before paramiko gets the connection: a container's sshd comes up within a moment, and a
forwarder may accept and close until then. Sources: paramiko's API reference, RFC 4253 section 4.2.
"""

from __future__ import annotations

import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.ports import Ran

if TYPE_CHECKING:
    from paramiko import Channel, PKey, SSHClient, Transport

_POLL_S = 0.015
_TRY_S = 0.5
_BANNER = b"SSH-"
_MOST_OUTPUT = 1 << 20
_LOG = "lxgpu.ssh"
_ALIVE_S = 15
_ALL_KNOWN = Path("/etc/ssh/ssh_known_hosts")


class Session:
    """A program at the other end of an SSH connection, as a `remote.Stream`; what it says on stderr comes last."""

    def __init__(self, client: SSHClient, channel: Channel) -> None:
        self._client = client
        self._channel = channel
        self._complaint = b""

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` and `sendall` wait before they raise TimeoutError."""
        self._channel.settimeout(timeout)

    def recv(self, size: int, /) -> bytes:
        """What has come on stdout; at its end once what came on stderr, as a line."""
        part = self._channel.recv(size)
        while self._channel.recv_stderr_ready():
            self._complaint = self._channel.recv_stderr(size)
        if not part and self._complaint:
            part, self._complaint = self._complaint.rstrip(b"\n") + b"\n", b""
        return part

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""
        from paramiko import SSHException  # noqa: PLC0415

        try:
            self._channel.sendall(data)
        except (SSHException, EOFError) as error:
            raise ConnectionError(_said(error)) from error

    def close(self) -> None:
        """End the connection; the program there sees the end of its input."""
        self._client.close()


def run_there(user: str, host: str, port: int, command: str, *, timeout_s: float) -> Session:
    """Start a program on another host, as this account would by `ssh`: with its keys and agent, and its known hosts.

    A host whose key is not known, or has changed, is not spoken to.

    Raises:
        LxgpuError: `unavailable`, with the real cause.
    """
    from paramiko import (  # noqa: PLC0415
        AuthenticationException,
        BadHostKeyException,
        RejectPolicy,
        SSHClient,
        SSHException,
    )

    where = f"{user}@{host}:{port}"
    client = SSHClient()
    _quiet_log()
    client.set_log_channel(_LOG)
    client.set_missing_host_key_policy(RejectPolicy)
    try:
        for known in (_ALL_KNOWN, Path.home() / ".ssh" / "known_hosts"):
            if known.is_file():
                client.load_system_host_keys(str(known))
        client.connect(
            host,
            port,
            user,
            timeout=timeout_s,
            banner_timeout=timeout_s,
            auth_timeout=timeout_s,
            channel_timeout=timeout_s,
        )
        return _started(client, command, timeout_s)
    except BaseException as error:
        client.close()
        match error:
            case BadHostKeyException():
                raise _not_known(where, f"it shows another key than the known one: {error.key.fingerprint}") from error
            case AuthenticationException():
                why = "no key of the account that runs lxgpu is accepted there"
                fix = f"put that account's public key into authorized_keys of {user} on {host}"
                raise LxgpuError("unavailable", f"SSH login as {where} failed", why=why, fix=fix) from error
            case SSHException() if "not found in known_hosts" in str(error):
                raise _not_known(where, "its key is not among the known hosts") from error
            case SSHException() | EOFError():
                raise _unavailable(where, _said(error)) from error
            case OSError():
                raise _unavailable(where, _words(error)) from error
        raise


def _started(client: SSHClient, command: str, timeout_s: float) -> Session:
    transport = client.get_transport()
    if transport is None:
        raise EOFError("the connection ended at once")
    transport.set_keepalive(_ALIVE_S)
    channel = transport.open_session(timeout=timeout_s)
    channel.settimeout(timeout_s)
    channel.exec_command(command)
    return Session(client, channel)


def _not_known(where: str, why: str) -> LxgpuError:
    user_host, _, port = where.rpartition(":")
    fix = f"ssh -p {port} {user_host} true, as the account that runs lxgpu; compare the key that it asks about"
    return LxgpuError("unavailable", f"SSH login as {where} failed", why=why, fix=fix)


def load_key(text: str) -> PKey:
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
def connected(host: str, port: int, ends: float) -> Iterator[socket.socket]:
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
def session(connection: socket.socket, where: str, ends: float) -> Iterator[Transport]:
    """An SSH session on a connection, not yet logged in."""
    from paramiko import SSHException, Transport  # noqa: PLC0415

    _quiet_log()
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


def _quiet_log() -> None:
    """Its thread would write tracebacks of refused connections to stderr; causes are told by the errors here."""
    log = logging.getLogger(_LOG)
    log.propagate = False
    log.handlers = log.handlers or [logging.NullHandler()]


def check_host(transport: Transport, expected: str | None, where: str) -> None:
    """Compare the key that the host shows with a public line; None: any will do."""
    if expected is None:
        return
    shown = transport.get_remote_server_key()
    if [shown.get_name(), shown.get_base64()] != expected.split()[:2]:
        raise _unavailable(where, f"another host answers there: it shows the key {shown.fingerprint}")


def authenticate(transport: Transport, user: str, key: PKey, where: str, ends: float) -> None:
    """Log in with that key and nothing else."""
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


def run_command(transport: Transport, command: str, where: str, ends: float) -> Ran:
    """Run a command to its end; both its streams in one text."""
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
