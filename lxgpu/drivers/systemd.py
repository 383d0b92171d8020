"""What systemd is told about the service: sd_notify(3) is one datagram, so there is no library for it here."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

_MICRO = 1_000_000


class ServiceManager:
    """systemd, or nobody. Its variables are taken out of the environment, so that no child speaks for the service."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        where = environ.pop("NOTIFY_SOCKET", "")
        self._where = f"\0{where[1:]}" if where.startswith("@") else where
        period, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = period.isdigit() and int(period) > 0 and pid in {"", str(os.getpid())}
        self.watchdog_s = int(period) / _MICRO if ours else None
        """How long it waits for a sign of life; None: for ever."""

    @property
    def there(self) -> bool:
        """Whether anybody listens."""
        return self._where != ""

    def tell(self, *lines: str) -> None:
        """Send lines such as `READY=1`. A service manager that does not listen stops nobody."""
        if not self.there:
            return
        text = "\n".join(line.replace("\n", " ") for line in lines)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.settimeout(0)
            wire.sendto(text.encode(), self._where)
