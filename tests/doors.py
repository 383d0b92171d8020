"""Servers on the loopback that notices are sent to: a mail server and a web server, each with its moods."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message


@dataclass
class Door:
    """A server that listens; `mood` is `takes`, `refuses`, `hangs` (accepts and never answers) or `drips`."""

    mood: str
    port: int
    mails: list[Message] = field(default_factory=list)
    receivers: list[str] = field(default_factory=list)
    posts: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)


@contextmanager
def open_door(kind: str, mood: str) -> Iterator[Door]:
    """A mail (`smtp`) or web (`http`) server for as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        door = Door(mood, listener.getsockname()[1])
        listener.settimeout(0.05)
        serve = {"smtp": _mail, "http": _web}[kind]
        thread = threading.Thread(target=_accept, args=(listener, door, serve), daemon=True)
        thread.start()
        try:
            yield door
        finally:
            door.end.set()
            thread.join()


def closed_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _accept(listener, door, serve):
    guests = []
    while not door.end.is_set():
        with suppress(TimeoutError):
            wire, _ = listener.accept()
            guests.append(threading.Thread(target=_guarded, args=(wire, door, serve), daemon=True))
            guests[-1].start()
    for guest in guests:
        guest.join()


def _guarded(wire, door, serve):
    with wire, suppress(OSError):
        wire.settimeout(10)
        if door.mood == "hangs":
            door.end.wait()
        elif door.mood == "drips":
            while not door.end.wait(0.2):  # one byte at a time: no read ever times out, and no line ever ends
                wire.sendall(b"2")
        else:
            serve(wire, door)


def _mail(wire, door):
    lines = wire.makefile("rb")
    wire.sendall(b"220 door\r\n")
    while line := lines.readline():
        word = line.split()[0].upper() if line.strip() else b""
        if word == b"RCPT" and door.mood == "refuses":
            wire.sendall(b"550 5.1.1 nobody of that name\r\n")
        elif word == b"RCPT":
            door.receivers.append(line.decode().strip().partition("<")[2].partition(">")[0])
            wire.sendall(b"250 ok\r\n")
        elif word == b"DATA":
            wire.sendall(b"354 go on\r\n")
            text = b"".join(iter(lines.readline, b".\r\n"))
            door.mails.append(message_from_bytes(text))
            wire.sendall(b"250 taken\r\n")
        elif word == b"QUIT":
            wire.sendall(b"221 bye\r\n")
            return
        else:
            wire.sendall(b"250 door\r\n")


def _web(wire, door):
    lines = wire.makefile("rb")
    target = lines.readline().split()[1].decode()
    headers = {}
    while (line := lines.readline().strip()) and b":" in line:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    body = lines.read(int(headers.get(b"content-length", b"0")))
    door.posts.append((target, json.loads(body)))
    status = b"403 Forbidden" if door.mood == "refuses" else b"204 No Content"
    wire.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
