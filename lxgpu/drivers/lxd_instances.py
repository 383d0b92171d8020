"""Instances: reading them, changing them under their ETag, and switching them on and off."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lxgpu.drivers.lxd_base import LxdBase
from lxgpu.drivers.lxd_errors import STALE, is_already, outcome_unknown, refusal
from lxgpu.drivers.lxd_read import power, rows, sighting, strings, table
from lxgpu.drivers.lxd_wire import Answer, Deadline
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power, Sighting
from lxgpu.ports import Change

BARRIER_KEY = "user.lxgpu.barrier"
_WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful")
_STOP_MARGIN_S = 5.0


class LxdInstances(LxdBase):
    """The part of `ports.Engine` about instances. See the port for what each method promises."""

    def instances(self, *, with_state: bool = True) -> tuple[Sighting, ...]:
        """All instances of all projects, in one request.

        Without state there is no `init_pid`, no address and no use of disk, and it takes 7 ms
        instead of 160 with 60 instances (LXD looks at every one's processes and disk).
        """
        depth = 2 if with_state else 1
        found = self._get("instances", "list the instances", recursion=depth, all_projects="true")
        return tuple(sighting(row) for row in rows(found.metadata) if row.get("type", "container") == "container")

    def instance(self, name: str, *, with_state: bool = True) -> Sighting | None:
        """One instance with its ETag, and its state unless that is not wanted, in one request."""
        asked = self._inits.now()
        found = self._find(f"instances/{name}", f"look at {name}", recursion=int(with_state))
        if found is None:
            return None
        seen = sighting(table(found.metadata), found.etag)
        self._bodies[name] = found
        if with_state:
            self._inits.keep(seen.uuid, seen.init_pid, asked=asked)
        return seen

    def glimpse(self, name: str) -> Sighting | None:
        """One instance with its ETag and its init. LXD is asked for the state only when the init is not known."""
        seen = self.instance(name, with_state=False)
        if seen is None or seen.power is Power.STOPPED:
            return seen
        init = self._inits.living(seen.uuid)
        return self.instance(name) if init is None else replace(seen, init_pid=init)

    def create(self, name: str, *, source: str, change: Change, profiles: Sequence[str]) -> None:
        """Makes it in one POST (a copy brings no snapshots along), so it never exists without its marks.

        LXD merges a copy's devices and cannot leave one out: it is masked in the POST, so that it is never
        passed, and the mask is taken off by a second write. After an error read back: it may exist.
        """
        kind, _, origin = source.partition(":")
        if kind == "copy":
            origins: dict[str, object] = {"type": "copy", "source": origin, "instance_only": True}
        elif kind == "image":
            origins = {"type": "image", "fingerprint": origin}
        else:
            raise ValueError(f"a source is image:FINGERPRINT or copy:NAME, not {source!r}")
        masked = [key for key, device in change.devices.items() if device is None] if kind == "copy" else []
        body = {
            "name": name,
            "type": "container",
            "profiles": list(profiles),
            "config": {key: value or "" for key, value in change.config.items()},
            "devices": {key: dict(device) for key, device in change.devices.items() if device is not None}
            | {key: {"type": "none"} for key in masked},
            "description": change.description or "",
            "source": origins,
        }
        self._do("POST", "instances", f"create {name}", deadline=self._slow(), body=body)
        if masked:
            self.update(name, Change(devices=dict.fromkeys(masked)), etag=None)

    def update(self, name: str, change: Change, *, etag: str | None) -> None:
        """GET, then one PUT under the ETag that was read (which must be `etag`, where one is given).

        What was read last of the instance serves as the GET, when it bears that `etag`: LXD itself refuses the PUT
        if anything has changed since.

        LXD 5.0.2 may answer with an error and have applied it (a full disk) or say nothing of half-made
        device nodes, so read back after any error, and look at the nodes after success too. The ETag covers
        all but the description. Without `etag` somebody else's write in between is kept: it is read again.
        """
        what = f"change {name}"
        deadline = self._deadline()

        def once() -> Answer:
            found = self._bodies.pop(name, None)
            if found is None or etag is None or found.etag != etag:
                found = self._get(f"instances/{name}", what, deadline=deadline)
            if etag is not None and found.etag != etag:
                raise refusal(what, status=STALE, text=f"its ETag is {found.etag} now, and was {etag}")
            return self._put(name, changed(table(found.metadata), change), found.etag, what, deadline)

        self._patiently(once, deadline, also_stale=etag is None)

    def barrier(self, name: str) -> None:
        """A write of our own under the ETag, waited for, that changes the ETag by a random mark.

        A write that is still on its way then meets another ETag and is refused; the mark is needed, for
        LXD keeps the ETag when nothing changes. When the instance is not there, waits for the operations
        that name it (a POST that makes it).
        """
        what = f"wait for earlier changes of {name}"
        deadline = self._slow()

        def once() -> Answer:
            found = self._get(f"instances/{name}", what, deadline=deadline)
            mark = Change(config={BARRIER_KEY: os.urandom(4).hex()})
            return self._put(name, changed(table(found.metadata), mark), found.etag, what, deadline)

        try:
            self._patiently(once, deadline, also_stale=True)
        except LxgpuError as error:
            if error.code != "not_found":
                raise
            self._settle(name, what, deadline)

    def _settle(self, name: str, what: str, deadline: Deadline) -> None:
        found = self._get("operations", what, deadline=deadline, recursion=1)
        for listed in table(found.metadata).values():
            for operation in rows(listed):
                named = strings(table(operation.get("resources")).get("instances"))
                if f"/1.0/instances/{name}" in (url.partition("?")[0] for url in named):
                    self._wait(f"operations/{operation.get('id')}", what, deadline)

    def _put(self, name: str, body: Mapping[str, object], etag: str | None, what: str, deadline: Deadline) -> Answer:
        headers = {"If-Match": etag} if etag else {}
        answer = self._session.send(
            "PUT", f"instances/{name}", deadline=deadline, what=what, body=body, headers=headers
        )
        return self._ended(answer, what, deadline)

    def start(self, name: str) -> None:
        """Starts, or thaws; the error of a failed start carries the ERROR lines of its log."""
        what = f"start {name}"
        try:
            self._switch(name, "start", what, wanted=Power.RUNNING, deadline=self._slow())
        except LxgpuError as error:
            if error.code != "engine":
                raise
            words = " ".join(error.why)
            if is_already(words) and self._power(name, what) is Power.FROZEN:
                self._thaw(name)  # LXD calls a frozen one running and leaves it so
                return
            raise refusal(what, status=0, text=words, log=self._log_or_nothing(name)) from None

    def stop(self, name: str, *, timeout_s: float, force: bool) -> None:
        """Stops; a clean stop that the instance did not finish in time is `outcome_unknown`."""
        what = f"stop {name}"
        deadline = Deadline(timeout_s + _STOP_MARGIN_S)
        seconds = max(1, math.ceil(timeout_s))
        try:
            self._switch(name, "stop", what, wanted=Power.STOPPED, deadline=deadline, seconds=seconds, force=force)
        except LxgpuError as error:
            if error.code != "engine" or force:
                raise
            raise outcome_unknown(what, " ".join(error.why), timeout_s) from None

    def _thaw(self, name: str) -> None:
        self._switch(name, "unfreeze", f"thaw {name}", wanted=Power.RUNNING, deadline=self._deadline())

    def _switch(
        self,
        name: str,
        action: str,
        what: str,
        *,
        wanted: Power,
        deadline: Deadline,
        seconds: int = 30,
        force: bool = False,
    ) -> None:
        body = {"action": action, "timeout": seconds, "force": force, "stateful": False}
        try:
            self._do("PUT", f"instances/{name}/state", what, deadline=deadline, body=body)
        except LxgpuError as error:
            if error.code != "engine" or not is_already(" ".join(error.why)):
                raise
            if self._power(name, what) is not wanted:
                raise

    def _power(self, name: str, what: str) -> Power:
        return power(table(self._get(f"instances/{name}", what).metadata).get("status"))

    def rename(self, name: str, new: str) -> None:
        """Renames a stopped instance; `exists` when the new name is taken. Its ETag changes."""
        self._do("POST", f"instances/{name}", f"rename {name}", deadline=self._deadline(), body={"name": new})

    def delete(self, name: str) -> None:
        """Deletes a stopped instance with its snapshots; nothing to do when it is gone."""
        try:
            self._do("DELETE", f"instances/{name}", f"delete {name}", deadline=self._slow())
        except LxgpuError as error:
            if error.code != "not_found":
                raise

    def log_errors(self, name: str) -> tuple[str, ...]:
        """The ERROR lines of liblxc's newest log of the instance, oldest first; none when there is no log."""
        found = self._find(f"instances/{name}/logs/lxc.log", f"read the log of {name}")
        lines = found.body.decode(errors="replace").splitlines() if found else []
        return tuple(" ".join(line.split()) for line in lines if " ERROR " in line)

    def _log_or_nothing(self, name: str) -> tuple[str, ...]:
        try:
            return self.log_errors(name)
        except LxgpuError as error:  # the first error is the one to tell; that the log was unreadable goes with it
            return (f"(its log could not be read: {error.brief})",)


def changed(instance: Mapping[str, object], change: Change) -> dict[str, object]:
    """Returns the body of a PUT: the instance as it was read, with the change over it."""
    body = {key: instance[key] for key in _WRITABLE if key in instance}
    body["config"] = _merged(table(instance.get("config")), change.config)
    body["devices"] = _merged(table(instance.get("devices")), change.devices)
    if change.description is not None:
        body["description"] = change.description
    return body


def _merged(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    merged = {**old, **new}
    return {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in merged.items() if value is not None
    }
