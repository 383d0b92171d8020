"""Programs and files inside an instance."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence

from lxgpu.drivers.lxd_base import LxdBase
from lxgpu.drivers.lxd_errors import NOT_FOUND, outcome_unknown, refusal
from lxgpu.drivers.lxd_read import table
from lxgpu.drivers.lxd_wire import Answer, Deadline
from lxgpu.errors import LxgpuError
from lxgpu.ports import Ran

_FIRST_ERROR = 400
_MARGIN_S = 5.0
_NO_INPUT = (125, "lxgpu: no input\n")
_AGAIN_S = 0.05
# Runs "$@" with the file $0 as input (removed at once) and $1 seconds to live, output and errors in one stream.
_WRAPPER = (
    '[ -r "$0" ] || { echo "lxgpu: no input"; exit 125; };'
    ' exec <"$0" 2>&1; [ "$0" = /dev/null ] || rm -f "$0"; s=$1; shift;'
    ' if command -v timeout >/dev/null; then exec timeout -s KILL "$s" "$@"; fi; exec "$@"'
)


class LxdFiles(LxdBase):
    """The part of `ports.Engine` that reaches into an instance."""

    def run(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float, stdin: bytes = b""
    ) -> Ran:
        """Runs a program by way of /bin/sh, without a websocket: LXD records the output and it is fetched.

        Input is handed over as a file below /run that is removed as it is opened (and handed over again when the
        instance, just started, has mounted its own /run over it). A program over its time is killed by `timeout`
        inside, where there is one, and the error is `outcome_unknown`. The container must run and must not be
        frozen, and be able to fork: no step of taking a card may need this.
        """
        what = f"run {argv[0]} in {name}"
        deadline = Deadline(timeout_s + _MARGIN_S)
        while True:
            source = "/dev/null"
            if stdin:
                source = f"/run/lxgpu-input-{os.urandom(8).hex()}"
                self.push(name, source, stdin, mode=0o600)
            seconds = max(1, math.ceil(timeout_s))
            command = ["sh", "-c", _WRAPPER, source, str(seconds), *argv]
            ran = self._execute(name, command, environment, seconds=seconds, what=what, deadline=deadline)
            if not stdin or (ran.status, ran.output) != _NO_INPUT or deadline.left <= _AGAIN_S:
                return ran
            time.sleep(_AGAIN_S)

    def _execute(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        seconds: int,
        what: str,
        deadline: Deadline,
    ) -> Ran:
        body = {
            "command": list(command),
            "environment": dict(environment),
            "interactive": False,
            "record-output": True,
            "wait-for-websocket": False,
        }
        begun = time.monotonic()
        try:
            ended = table(self._do("POST", f"instances/{name}/exec", what, deadline=deadline, body=body).metadata)
        except LxgpuError as error:  # a program's own status 126 or 127 is a failure to LXD, and an end to us
            ended = table(error.details.get("operation"))
            if "return" not in table(ended.get("metadata")):
                raise
        data = table(ended.get("metadata"))
        status = data.get("return")
        if not isinstance(status, int):
            raise outcome_unknown(what, "LXD forgot the program before it told how it ended", seconds)
        output = self._collect(table(data.get("output")), what)
        if time.monotonic() - begun >= seconds and status == 128 + 9:
            raise outcome_unknown(what, f"it was killed after {seconds} s; it had written: {output[-500:]}", seconds)
        return Ran(status=status, output=output)

    def _collect(self, files: Mapping[str, object], what: str) -> str:
        """The recorded output (all of it is on descriptor 1); the records are removed."""
        urls = {key: str(url).removeprefix("/1.0/").partition("?")[0] for key, url in files.items()}
        found = self._find(urls["1"], what) if "1" in urls else None
        for url in urls.values():
            self._session.send("DELETE", url, deadline=self._deadline(), what=what)
        return found.body.decode(errors="replace") if found else ""

    def push(self, name: str, path: str, content: bytes, *, mode: int, uid: int = 0, gid: int = 0) -> None:
        """Writes a file; its directory must be there. `uid` and `gid` are those inside.

        LXD keeps mode and owner of a file that is there, so one that has others is removed first. Into a
        stopped instance it works too, but LXD's helper then holds the file system for seconds: the next start
        may take one second more, and deleting after renaming took 15 (LXD 5.0.2, ran).
        """
        what = f"write {path} in {name}"
        url = f"instances/{name}/files"
        wanted = {"mode": f"{mode:04o}", "uid": str(uid), "gid": str(gid)}
        there = self._session.head(url, deadline=self._deadline(), what=what, path=path)
        if there.status < _FIRST_ERROR:
            if _mark(there, "type") == "directory":
                raise refusal(what, status=0, text="it is a directory")
            if _mark(there, "type") != "file" or any(_mark(there, key) != value for key, value in wanted.items()):
                self._do("DELETE", url, what, deadline=self._deadline(), params={"path": path})
        marks = wanted | {"type": "file", "write": "overwrite"}
        headers = {f"X-{kind}-{key}": value for kind in ("LXD", "Incus") for key, value in marks.items()}
        headers["Content-Type"] = "application/octet-stream"
        self._do("POST", url, what, deadline=self._deadline(), raw=content, params={"path": path}, headers=headers)

    def pull(self, name: str, path: str) -> bytes | None:
        """Reads a file whole; None when there is none. Symbolic links are followed inside the instance."""
        what = f"read {path} in {name}"
        answer = self._session.get(f"instances/{name}/files", deadline=self._deadline(), what=what, path=path)
        if answer.status == NOT_FOUND and "instance" not in answer.error.lower():
            return None
        if answer.status >= _FIRST_ERROR:
            raise refusal(what, status=answer.status, text=answer.error)
        if _mark(answer, "type") == "directory":
            raise LxgpuError("engine", f"{what}: it is a directory")
        return answer.body


def _mark(answer: Answer, key: str) -> str:
    return answer.headers.get(f"x-lxd-{key}") or answer.headers.get(f"x-incus-{key}") or ""
