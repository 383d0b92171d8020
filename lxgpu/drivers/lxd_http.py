"""The session with LXD or Incus: one small exchange for reading, pylxd for everything that changes something.

Reading has an exchange of its own because pylxd takes 150 ms to import, and all of `lxgpu ls` has 90 ms
(three times `lxc list -c ns`); HTTP/1.0 on the unix socket is one write and a read to the end of file.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import quote, urlencode

from lxgpu.drivers.lxd_errors import not_sent, outcome_unknown
from lxgpu.drivers.lxd_socket import find_socket
from lxgpu.drivers.lxd_wire import Answer, Deadline, ask, knock
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from pylxd.client import Client  # type: ignore[import-untyped] # pylxd has no types
    from requests import Response


class LxdSession:
    """Counted requests to one unix socket. Nothing is opened, imported or looked up before the first."""

    def __init__(self, path: str | None, *, project: str) -> None:
        self.requests = 0
        self._given = path
        self._project = project
        self._client: Client | None = None
        self._lock = threading.Lock()

    @property
    def socket_path(self) -> str:
        """The socket in use, looked for at every call when none was named (a snap can come and go)."""
        return self._given or find_socket()

    def get(self, path: str, /, *, deadline: Deadline, what: str, **params: object) -> Answer:
        """Reads; a refusal by the server is an `Answer` like any other. `_` in a parameter's name stands for `-`.

        Raises:
            LxgpuError: `unavailable` when no answer came at all.
        """
        self._count()
        return ask("GET", self._target(path, params), where=self.socket_path, deadline=deadline, what=what)

    def head(self, path: str, /, *, deadline: Deadline, what: str, **params: object) -> Answer:
        """Like `get`, without the body."""
        self._count()
        return ask("HEAD", self._target(path, params), where=self.socket_path, deadline=deadline, what=what)

    def send(
        self,
        method: str,
        path: str,
        *,
        deadline: Deadline,
        what: str,
        params: Mapping[str, object] | None = None,
        body: object = None,
        raw: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Changes something: `body` goes as JSON, `raw` as it is. A refusal is an `Answer`.

        Raises:
            LxgpuError: `unavailable` when nothing was sent, `outcome_unknown` when no answer came after that.
        """
        from pylxd.exceptions import (  # type: ignore[import-untyped] # noqa: PLC0415 - 150 ms that reading need not pay
            LXDAPIException,
        )
        from requests.exceptions import RequestException  # noqa: PLC0415 - as above

        knock(self.socket_path, what)
        node = self._connected(deadline, what).api
        for part in filter(None, path.split("/")):
            node = node[quote(part, safe="")]
        extra = {"json": body} if raw is None else {"data": raw}
        self._count()
        try:
            call = getattr(node, method.lower())
            response = call(params=self._params(params), headers=dict(headers or {}), timeout=deadline.left, **extra)
        except LXDAPIException as error:
            response = error.response
        except (RequestException, OSError) as error:
            raise self._lost(error, what, deadline) from None
        return _answer(cast("Response", response))

    def _connected(self, deadline: Deadline, what: str) -> Client:
        from pylxd.client import Client, get_session_for_url  # noqa: PLC0415 - as above
        from pylxd.exceptions import ClientConnectionFailed, LXDAPIException  # noqa: PLC0415 - as above
        from requests.exceptions import RequestException  # noqa: PLC0415 - as above

        with self._lock:
            if self._client is not None:
                return self._client
            where = self.socket_path
            url = f"http+unix://{quote(where, safe='')}"
            session = get_session_for_url(url)
            session.trust_env = False  # HTTP_PROXY means nothing on a unix socket and breaks it
            session.headers["Connection"] = "close"  # a kept one dies with the daemon: not sent looks unknown
            try:
                self.requests += 1
                self._client = Client(endpoint=url, session=session, timeout=deadline.left)
            except (RequestException, ClientConnectionFailed, LXDAPIException, OSError) as error:
                raise not_sent(where, _root(error), what) from None
            return self._client

    def _lost(self, error: Exception, what: str, deadline: Deadline) -> LxgpuError:
        root = _root(error)
        if isinstance(root, FileNotFoundError | ConnectionRefusedError | PermissionError):
            return not_sent(self.socket_path, root, what)
        return outcome_unknown(what, f"the connection to LXD was lost: {root}", deadline.seconds)

    def _params(self, params: Mapping[str, object] | None) -> dict[str, object]:
        mine: dict[str, object] = {} if self._project == "default" else {"project": self._project}
        return mine | {key: value for key, value in (params or {}).items() if value is not None}

    def _target(self, path: str, params: Mapping[str, object]) -> str:
        named = {key.replace("_", "-"): value for key, value in params.items()}
        query = urlencode(named if "all-projects" in named else self._params(named))
        return f"/1.0/{quote(path.strip('/'))}".rstrip("/") + (f"?{query}" if query else "")

    def _count(self) -> None:
        with self._lock:
            self.requests += 1


def _root(error: BaseException) -> BaseException:
    """The first cause: requests and urllib3 wrap what the system said several times over."""
    seen = {id(error)}
    while True:
        inner = error.__cause__ or error.__context__
        inner = inner or next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        if inner is None or id(inner) in seen:
            return error
        seen.add(id(inner))
        error = inner


def _answer(response: Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, body=response.content)
