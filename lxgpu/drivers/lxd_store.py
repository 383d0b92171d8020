"""Images, volumes, snapshots, pools, networks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lxgpu.drivers import lxd_read
from lxgpu.drivers.lxd_base import LxdBase
from lxgpu.drivers.lxd_read import rows, table, texts
from lxgpu.errors import LxgpuError
from lxgpu.ports import Image, Network, Pool

_FAR_PAST = datetime.min.replace(tzinfo=UTC)


class LxdStore(LxdBase):
    """The part of `ports.Engine` about what is stored."""

    def ensure_volume(self, pool: str, name: str, *, size_bytes: int | None) -> None:
        """Makes a custom volume or sets its size; the caller never asks for less than is used.

        (After a refused shrink LXD 5.0.2 on btrfs cannot raise the size any more.)
        """
        what = f"volume {name}"
        path = f"storage-pools/{pool}/volumes/custom"
        size = {} if size_bytes is None else {"size": f"{size_bytes}B"}
        found = self._find(f"{path}/{name}", what)
        if found is None:
            make = {"name": name, "type": "custom", "content_type": "filesystem", "config": size}
            self._do("POST", path, what, deadline=self._slow(), body=make)
            return
        there = table(found.metadata)
        config = texts(there.get("config"))
        wanted = {key: value for key, value in config.items() if key != "size"} | size
        if wanted != config:
            body = {"config": wanted, "description": there.get("description") or ""}
            headers = {"If-Match": found.etag} if found.etag else {}
            self._do("PUT", f"{path}/{name}", what, deadline=self._slow(), body=body, headers=headers)

    def delete_volume(self, pool: str, name: str) -> None:
        """Deletes a volume that no device uses; nothing to do when it is gone."""
        self._gone(f"storage-pools/{pool}/volumes/custom/{name}", f"delete volume {name}")

    def has_volume(self, pool: str, name: str) -> bool:
        """Whether there is a custom volume of that name; one request."""
        return self._find(f"storage-pools/{pool}/volumes/custom/{name}", f"look for volume {name}") is not None

    def snapshots(self, name: str) -> tuple[tuple[str, datetime | None], ...]:
        """Snapshots, oldest first."""
        found = self._get(f"instances/{name}/snapshots", f"list the snapshots of {name}", recursion=1)
        pairs = [
            (str(row.get("name")).rpartition("/")[2], lxd_read.moment(row.get("created_at")))
            for row in rows(found.metadata)
        ]
        return tuple(sorted(pairs, key=lambda pair: pair[1] or _FAR_PAST))

    def snapshot(self, name: str, snapshot: str) -> None:
        """Takes a snapshot, with configuration and devices as they are."""
        body = {"name": snapshot, "stateful": False}
        self._do("POST", f"instances/{name}/snapshots", f"snapshot {name}/{snapshot}", deadline=self._slow(), body=body)

    def restore(self, name: str, snapshot: str) -> None:
        """Brings it back; devices and `user.lxgpu.*` come back too, so the caller writes them anew."""
        body = {"restore": snapshot, "stateful": False}
        self._do("PUT", f"instances/{name}", f"restore {name} to {snapshot}", deadline=self._slow(), body=body)

    def delete_snapshot(self, name: str, snapshot: str) -> None:
        """Deletes a snapshot; nothing to do when it is gone."""
        self._gone(f"instances/{name}/snapshots/{snapshot}", f"delete snapshot {name}/{snapshot}")

    def images(self) -> tuple[Image, ...]:
        """The image store."""
        found = self._get("images", "list the images", recursion=1)
        return tuple(lxd_read.image(row) for row in rows(found.metadata))

    def import_image(self, path: str, *, alias: str | None) -> Image:
        """Streams a unified tarball in (its SHA-256 is the fingerprint) and points the alias at it, if one is given.

        Repeatable: an image that is there is not sent again, an alias that is there is moved.
        """
        import hashlib  # noqa: PLC0415 - 3 ms that `ls` need not pay

        what = f"import {path}"
        file = Path(path)
        with file.open("rb") as content:
            fingerprint = hashlib.file_digest(content, "sha256").hexdigest()
        if self._find(f"images/{fingerprint}", what) is None:
            headers = {"X-LXD-filename": file.name, "X-Incus-filename": file.name}
            headers["Content-Type"] = "application/octet-stream"
            with file.open("rb") as content:
                self._do("POST", "images", what, deadline=self._slow(), raw=content, headers=headers)
        if alias is not None:
            self.name_image(fingerprint, alias)
        return lxd_read.image(table(self._get(f"images/{fingerprint}", what).metadata))

    def name_image(self, fingerprint: str, alias: str) -> None:
        """Points an alias at an image; one that is there is moved."""
        what = f"name an image {alias}"
        found = self._find(f"images/aliases/{alias}", what)
        body = {"target": fingerprint, "description": ""}
        if found is None:
            self._do("POST", "images/aliases", what, deadline=self._deadline(), body={"name": alias, **body})
        elif table(found.metadata).get("target") != fingerprint:
            self._do("PUT", f"images/aliases/{alias}", what, deadline=self._deadline(), body=body)

    def delete_image(self, fingerprint: str) -> None:
        """Deletes an image; nothing to do when it is gone. Instances made from it stay."""
        self._gone(f"images/{fingerprint}", f"delete image {fingerprint[:12]}")

    def pool(self, name: str) -> Pool:
        """A storage pool with its use; two requests."""
        what = f"look at pool {name}"
        found = self._get(f"storage-pools/{name}", what)
        space = self._get(f"storage-pools/{name}/resources", what)
        return lxd_read.pool(table(found.metadata), table(space.metadata))

    def network(self, name: str) -> Network:
        """A managed bridge; `not_found` for one that LXD does not manage."""
        what = f"look at network {name}"
        data = table(self._get(f"networks/{name}", what).metadata)
        if data.get("managed") is not True:
            fix = "name a bridge of `lxc network list` that LXD manages"
            raise LxgpuError("not_found", f"{what}: LXD does not manage it", fix=fix)
        leases = self._get(f"networks/{name}/leases", what).metadata
        return replace(lxd_read.network(data), leased=lxd_read.leased(leases))

    def _gone(self, path: str, what: str) -> None:
        try:
            self._do("DELETE", path, what, deadline=self._slow())
        except LxgpuError as error:
            if error.code != "not_found":
                raise
