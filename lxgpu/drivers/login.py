"""SSH with one given key, to prove that a container can be used.

Only that key is tried: no agent, no keys of the account that runs lxgpu, no Kerberos.
"""

from __future__ import annotations

import time

from lxgpu.drivers.ssh import authenticate, check_host, connected, load_key, run_command, session
from lxgpu.ports import Ran


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
        key = load_key(private_key)
        with connected(host, port, ends) as connection, session(connection, where, ends) as transport:
            check_host(transport, host_key, where)
            authenticate(transport, user, key, where, ends)
            return run_command(transport, command, where, ends)

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
