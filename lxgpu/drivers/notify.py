"""Mail, webhooks and programs: every way on its own, side by side, with a time limit, raising nothing."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from lxgpu.drivers.channels import SENT, Message, by_mail, by_webhook, one_line
from lxgpu.drivers.deadline import Patience, TooLateError

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Way = Callable[[], str]
"""Sends; gives `sent`, or why not."""


class ChannelNotifier:
    """`ports.Notifier`. Each channel is (kind, to, sender); one way may take `limit_s`, one answer half of it."""

    def __init__(self, channels: Iterable[tuple[str, str, str]], *, limit_s: float = 6.0) -> None:
        self._channels = tuple(channels)
        self._limit_s = limit_s
        self._patience = Patience()

    def send(self, subject: str, text: str, *, mail: str | None) -> Mapping[str, str]:
        """Hand a message to all ways at once; see `ports.Notifier`."""
        message, ways = Message(subject, text, mail or ""), dict[str, Way]()
        for kind, to, sender in self._channels:
            name = _unique(_name(kind, to), ways)
            if kind == "mail":
                ways[name] = partial(by_mail, to, sender, message, limit_s=self._limit_s / 2)
            elif kind == "webhook":
                ways[name] = partial(by_webhook, to, message, limit_s=self._limit_s / 2)
            else:
                ways[name] = partial(_by_program, to, message, limit_s=self._limit_s * 0.9)
        if not ways:
            return {}
        with ThreadPoolExecutor(max_workers=len(ways)) as pool:
            return dict(zip(ways, pool.map(self._try, ways, ways.values()), strict=True))

    def _try(self, name: str, way: Way) -> str:
        try:
            return self._patience.run(name, way, timeout_s=self._limit_s)
        except TooLateError:
            return f"no answer within {self._limit_s:g} s"
        except Exception as error:  # noqa: BLE001 - whatever a channel's library raises, the others and the loop go on
            return one_line(f"{type(error).__name__}: {error}")


def _name(kind: str, to: str) -> str:
    """The way's name in an outcome: without what is secret in a URL."""
    if kind == "command":
        return f"command {os.path.basename(to.split(maxsplit=1)[0])}"  # noqa: PTH119 - of a text
    where = urlsplit(to).hostname or "" if "://" in to else to
    return kind if kind == "mail" else f"{kind} {where}".rstrip()


def _unique(name: str, taken: Mapping[str, object]) -> str:
    number = 1 + sum(other.partition(" #")[0] == name for other in taken)
    return name if number == 1 else f"{name} #{number}"


def _by_program(to: str, message: Message, *, limit_s: float) -> str:
    """Run the admin's own program: the text is its input; who does not end in time is killed with its children."""
    environment = {"PATH": _PATH, "LANG": "C.UTF-8", "LXGPU_SUBJECT": message.subject, "LXGPU_MAIL": message.mail}
    with subprocess.Popen(
        shlex.split(to),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(message.text.encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"it did not end within {limit_s:g} s"
    if process.returncode == 0:
        return SENT
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return one_line(f"it ended with status {process.returncode}" + (f": {last}" if last else ""))
