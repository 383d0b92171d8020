"""Setting up the lab's LXD: pool, bridge, default profile, base image. Each step looks first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lxgpu.errors import LxgpuError
from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lxgpu.lab.record import Lab

POOL, IMAGE = "default", "base"
POOL_SIZE = "20GiB"


def client_env(lab: Lab) -> dict[str, str]:
    """What points the lxc program at the lab, and away from the caller's own settings."""
    return {"LXD_DIR": str(lab.lxd_dir), "LXD_CONF": str(lab.paths.client)}


def query(lab: Lab, path: str, *, method: str = "GET", body: object = None, limit: float = 60) -> Any:  # noqa: ANN401 -- JSON
    """One request to the lab's LXD; waits for the operation that it may start, and returns the metadata."""
    command = ["lxc", "query", "--wait", "--request", method, path]
    if body is not None:
        command += ["--data", json.dumps(body)]
    answer = run(command, env=client_env(lab), limit=limit)
    return json.loads(answer) if answer.strip() else None


def exists(lab: Lab, collection: str, name: str) -> bool:
    """Whether LXD has an object of that name."""
    return f"/1.0/{collection}/{quote(name)}" in (query(lab, f"/1.0/{collection}") or ())


def _make(lab: Lab, collection: str, body: dict[str, Any]) -> None:
    """Make an object; an interrupted `up` may have asked for it already, so what counts is whether it is there."""
    try:
        query(lab, f"/1.0/{collection}", method="POST", body=body)
    except LxgpuError:
        if not exists(lab, collection, body["name"]):
            raise


def set_up(lab: Lab, *, image: Callable[[], Path], progress: Callable[[str], None]) -> None:
    """Make what is missing of pool, bridge, profile and image."""
    if not exists(lab, "storage-pools", POOL):
        progress(f"pool {POOL}: btrfs on a sparse file of {POOL_SIZE}")
        pool = {"name": POOL, "driver": "btrfs", "config": {"size": POOL_SIZE}}
        _make(lab, "storage-pools", pool)
    if not exists(lab, "networks", lab.bridge):
        progress(f"bridge {lab.bridge}: {lab.subnet}")
        config = {"ipv4.address": f"{lab.address}/24", "ipv4.nat": "true", "ipv6.address": "none"}
        network = {"name": lab.bridge, "type": "bridge", "config": config}
        _make(lab, "networks", network)
    devices = {
        "root": {"type": "disk", "path": "/", "pool": POOL},
        "eth0": {"type": "nic", "network": lab.bridge, "name": "eth0"},
    }
    if query(lab, "/1.0/profiles/default")["devices"] != devices:
        query(lab, "/1.0/profiles/default", method="PUT", body={"devices": devices, "config": {}})
    if not exists(lab, "images/aliases", IMAGE):
        archive = image()
        progress(f"image {IMAGE}: importing {archive.name}")
        run(["lxc", "image", "import", str(archive), "--alias", IMAGE], env=client_env(lab), limit=300)


def check_cards(lab: Lab) -> list[str]:
    """The UUIDs of the lab's cards that LXD does not report."""
    resources = query(lab, "/1.0/resources")
    seen = {card.get("nvidia", {}).get("uuid") for card in resources["gpu"].get("cards") or ()}
    return [card.uuid for card in lab.gpus if card.uuid not in seen]
