"""A small SSH server for tests: takes some keys, answers as told, and runs programs if it is told to."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import paramiko


class Door(paramiko.ServerInterface):
    """Listens on a port of its own until it is closed.

    `lines` are the public keys it takes. `ways` are the ways of login it offers; with
    `ends` it closes the connection when it is shown a key. A command is answered
    with its own words and the status 0, `fail` with 3, `hang` never; with `runs` it is run on this machine.
    """

    def __init__(self, lines: Collection[str], *, ways: str = "publickey", runs: bool = False) -> None:
        self.lines = list(lines)
        self.ways = ways
        self.ends = False
        self.runs = runs
        self.programs: list[subprocess.Popen[bytes]] = []
        self.host_key = paramiko.ECDSAKey.generate()
        self.tried: list[str] = []
        self._sessions: list[paramiko.Transport] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all sessions."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(2)
        self.cut()
        for program in self.programs:
            program.kill()
        for thread in self._threads if self.runs else ():
            thread.join(5)

    def cut(self) -> None:
        """End the sessions that there are; new ones are taken."""
        for session in self._sessions:
            session.close()

    def host_line(self) -> str:
        """Its own public line."""
        return f"{self.host_key.get_name()} {self.host_key.get_base64()}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            session = paramiko.Transport(connection)
            session.daemon = True
            session.add_server_key(self.host_key)
            session.start_server(server=self, event=threading.Event())
            self._sessions.append(session)

    # ---- paramiko asks

    def get_allowed_auths(self, username: str) -> str:
        """The ways of login."""
        del username
        return self.ways

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Whether the key is on the list."""
        self.tried.append(f"{username} {key.get_base64()}")
        if self.ends:
            for session in self._sessions:
                session.close()
        known = {line.split()[1] for line in self.lines}
        return paramiko.AUTH_SUCCESSFUL if key.get_base64() in known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Sessions are allowed."""
        del kind, chanid
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Answer a command, in a thread, since the request is to be confirmed first."""
        act = self._run if self.runs else self._answer
        self._threads.append(threading.Thread(target=act, args=(channel, command.decode()), daemon=True))
        self._threads[-1].start()
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        """The program's streams are the channel's; the end of one side is the other's."""
        ours, theirs = socket.socketpair()
        with ours, theirs, tempfile.TemporaryFile() as complaints:
            program = subprocess.Popen(command, shell=True, stdin=theirs, stdout=theirs, stderr=complaints)  # noqa: S602 -- as sshd does
            self.programs.append(program)
            theirs.close()
            inward = threading.Thread(target=_pump, args=(channel.recv, ours.sendall))
            inward.start()
            _pump(ours.recv, channel.sendall)
            status = program.wait()
            complaints.seek(0)
            with suppress(OSError, EOFError, paramiko.SSHException):
                channel.sendall_stderr(complaints.read())
                channel.send_exit_status(status & 0xFF)
            channel.close()
            inward.join()

    @staticmethod
    def _answer(channel: paramiko.Channel, command: str) -> None:
        if command == "hang":
            return
        time.sleep(0.03)  # until paramiko has confirmed the request, as OpenSSH does before anything else
        channel.sendall(f"{command}\n".encode())
        channel.sendall_stderr(b"warned\n")
        channel.send_exit_status(3 if command == "fail" else 0)
        channel.close()


def _pump(take: Callable[[int], bytes], give: Callable[[bytes], object]) -> None:
    """From one stream into the other until one has ended; then the one that is given to ends too."""
    with suppress(OSError):
        while part := take(1 << 16):
            give(part)
    if isinstance(give.__self__, socket.socket):
        with suppress(OSError):
            give.__self__.shutdown(socket.SHUT_WR)
