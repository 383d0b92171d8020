"""The engine driver: LXD 5.0 and later, and Incus, over one unix socket.

Where they differ the driver sends or reads both forms (the headers of the files API) or goes by what the
server names (operations, log addresses); nothing is chosen by version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lxgpu.drivers import lxd_read
from lxgpu.drivers.lxd_files import LxdFiles
from lxgpu.drivers.lxd_instances import LxdInstances
from lxgpu.drivers.lxd_rebuild import LxdRebuild
from lxgpu.drivers.lxd_store import LxdStore
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Power
from lxgpu.ports import Server

# Takes each of "$@" away, however often it was mounted over itself.
_CLEAR = (
    'for node; do n=0; while [ $n -lt 8 ] && umount -l "$node" 2>/dev/null; do n=$((n + 1)); done; rm -f "$node"; done'
)


class LxdEngine(LxdRebuild, LxdInstances, LxdFiles, LxdStore):
    """`ports.Engine` on a real server. Making one does nothing; the first call looks for the socket.

    `socket` None means: LXD_DIR, INCUS_DIR, the snap's place, /var/lib/lxd, /var/lib/incus. `timeout_s`
    bounds each call (20 times that where file systems are copied). Calls may come from several threads. A `hasty`
    one that got no answer in that time fails at once for as long again, so that a look at a hanging LXD ends.
    """

    _host = ""

    def server(self) -> Server:
        """Facts and promises; one request."""
        found = self._get("", "look at LXD")
        return lxd_read.server(lxd_read.table(found.metadata), found.etag)

    def put_promises(self, promises: Mapping[str, str | None], *, etag: str | None) -> None:
        """Merges keys into the server's configuration (a PATCH, so that other keys are not touched)."""
        what = "write the promises"
        config = {key: value or "" for key, value in promises.items()}
        headers = {"If-Match": etag} if etag else {}
        self._do("PATCH", "", what, deadline=self._deadline(), body={"config": config}, headers=headers)

    def gpus(self) -> tuple[Gpu, ...]:
        """The NVIDIA cards, never cached; LXD asks `nvidia-container-cli` each time, which takes 20 ms and more.

        The server's name is asked for once (so the first call is two requests).
        """
        self._host = self._host or self.server().name
        found = self._get("resources", "look at the cards")
        return lxd_read.gpus(lxd_read.table(found.metadata), self._host)

    def proxy_ports(self) -> Mapping[int, str]:
        """Ports of the host taken by proxy devices, with whose they are (`alice`, `profile web`, `PROJECT/NAME`)."""
        what = "look for taken ports"
        taken: dict[int, str] = {}
        for project, name, found in self._profiles(what):
            del project  # people know a profile by its name
            taken |= dict.fromkeys(lxd_read.proxy_ports(found), f"profile {name}")
        for seen in self.instances(with_state=False):
            owner = seen.name if seen.project == "default" else f"{seen.project}/{seen.name}"
            taken |= dict.fromkeys(lxd_read.proxy_ports(seen.expanded_devices), owner)
        return taken

    def profile_devices(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """The devices of every profile of every project, by `NAME` or `PROJECT/NAME`."""
        return {
            name if project == "default" else f"{project}/{name}": found
            for project, name, found in self._profiles("look at the profiles")
        }

    def _profiles(self, what: str) -> Iterator[tuple[str, str, Mapping[str, Mapping[str, str]]]]:
        for row in lxd_read.rows(self._get("projects", what, recursion=1).metadata):
            project = str(row.get("name"))
            if lxd_read.table(row.get("config")).get("features.profiles") != "true":
                continue  # such a project uses the default one's profiles
            for profile in lxd_read.rows(self._get("profiles", what, recursion=1, project=project).metadata):
                yield project, str(profile.get("name")), lxd_read.devices(profile.get("devices"))

    def left_nodes(self, name: str) -> tuple[str, ...]:
        """Paths of node files of devices that the instance does not have (any more, or yet), on the host.

        A later attach of a device of that name fails while they are there.
        """
        found = self._find(f"instances/{name}", f"look at {name}")
        kept = set(lxd_read.devices(lxd_read.table(found.metadata).get("expanded_devices"))) if found else set()
        folder = Path(self._session.socket_path).parent / "devices" / name
        try:
            entries = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return ()
        return tuple(str(folder / entry) for entry in entries if _device_of(entry) not in kept | {""})

    def clear_left_nodes(self, name: str) -> None:
        """Removes what `left_nodes` lists: first inside the instance, if it runs, then on the host.

        Inside, a node is a mount over an empty file; one that a device which is there provides as well stays.
        """
        left = [Path(path) for path in self.left_nodes(name)]
        if not left:
            return
        served = {_path_of(entry.name) for entry in left[0].parent.iterdir() if entry not in left}
        inside = sorted({_path_of(entry.name) for entry in left} - served)
        if inside and self._power(name, f"look at {name}") is Power.RUNNING:
            self.run(name, ["sh", "-c", _CLEAR, "sh", *inside], environment={}, timeout_s=10)
        for entry in left:
            entry.unlink(missing_ok=True)


def _device_of(entry: str) -> str:
    """The device that a file `unix.DEVICE.PATH` belongs to; LXD writes `/` as `-` and `-` as `--` in both parts."""
    kind, _, rest = entry.partition(".")
    if kind != "unix":
        return ""
    return rest.rpartition(".")[0].replace("--", "-")


def _path_of(entry: str) -> str:
    """The path inside that a file `unix.DEVICE.PATH` is mounted at."""
    return "/" + entry.rpartition(".")[2].replace("--", "\0").replace("-", "/").replace("\0", "-")
