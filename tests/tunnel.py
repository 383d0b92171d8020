"""A person at their own computer: ssh with the lines that `lxgpu ssh-config` prints, and what they then reach."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from house import House, until
from ws4py.client import WebSocketBaseClient


@contextmanager
def tunnel(house: House, name: str, service: str, folder: Path) -> Iterator[dict[int, int]]:
    """`ssh -N NAME-SERVICE`, as the lines for ~/.ssh/config have it; ports inside, each with the one on this machine.

    On this machine they are others than the lines say, since somebody else may have those.
    """
    ports: dict[int, int] = {}

    def free(found: re.Match[str]) -> str:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ports[int(found[2])] = taken.getsockname()[1]
        return f"LocalForward {ports[int(found[2])]} 127.0.0.1:{found[2]}"

    text = re.sub(r"LocalForward ([0-9]+) 127\.0\.0\.1:([0-9]+)", free, house.ok("ssh-config", name).out)
    hosts, config = folder / "known_hosts", folder / "config"
    hosts.write_text(house.ok("ssh-config", name, "--known-hosts").out)
    config.write_text(text)
    key = house.lab.paths.state / "keys" / name
    options = ("-o", f"UserKnownHostsFile={hosts}", "-o", "GlobalKnownHostsFile=/dev/null", "-o", "BatchMode=yes")
    argv = ["ssh", "-F", str(config), *options, "-i", str(key), "-N", f"{name}-{service}"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert ports
            assert until(lambda: process.poll() is not None or all(map(_open, ports.values())))
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            yield ports
        finally:
            process.terminate()


def _open(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def ask(port: int, path: str, body: object = None, *, token: str = "") -> tuple[int, Any]:
    """One request, a POST where there is a body: status and what came, read as JSON where it is."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"token {token}"} if token else {}
    method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
    link.request(method, path, text, headers)
    answer = link.getresponse()
    said = answer.read().decode()
    link.close()
    try:
        return answer.status, json.loads(said)
    except json.JSONDecodeError:
        return answer.status, said


@contextmanager
def kernel(port: int, token: str) -> Iterator[Kernel]:
    """A fresh kernel; it lives on when nobody speaks to it any more."""
    one = Kernel(port, token)
    try:
        yield one
    finally:
        one.close_connection()


class Kernel(WebSocketBaseClient):
    """A kernel of a Jupyter server, spoken to as a notebook does."""

    def __init__(self, port: int, token: str) -> None:
        status, made = ask(port, "/api/kernels", {}, token=token)
        assert status == 201, made
        self.id: str = made["id"]
        self.said: list[dict[str, Any]] = []
        url = f"ws://127.0.0.1:{port}/api/kernels/{self.id}/channels?token={token}"
        super().__init__(url)
        self.connect()
        self.sock.settimeout(60)

    def handshake_ok(self) -> None:
        """The server has taken the connection."""

    def received_message(self, message: object) -> None:
        """Keep what the kernel says."""
        self.said.append(json.loads(str(message)))

    def cell(self, code: str) -> str:
        """Run a cell; what it printed."""
        asked = uuid.uuid4().hex
        header = {"msg_id": asked, "msg_type": "execute_request", "username": "", "session": asked, "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        words = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.send(json.dumps({**words, "buffers": []}))
        while not self._ended(asked):
            assert self.once(), "the server closed the connection"
        mine = [one for one in self.said if one["parent_header"].get("msg_id") == asked]
        wrong = [one["content"] for one in mine if one["msg_type"] == "error"]
        assert not wrong, wrong
        return "".join(one["content"]["text"] for one in mine if one["msg_type"] == "stream")

    def _ended(self, asked: str) -> bool:
        kinds = {one["msg_type"] for one in self.said if one["parent_header"].get("msg_id") == asked}
        idle = any(
            one["parent_header"].get("msg_id") == asked and one["content"].get("execution_state") == "idle"
            for one in self.said
        )
        return idle and "execute_reply" in kinds
