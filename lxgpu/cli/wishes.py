"""From the words of `lxgpu create` to requests: keys found and checked, files read, everything wrong said at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lxgpu.cli.render import Output
from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Terms
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.services.site import Site


def one_wish(site: Site, name: str, options: Mapping[str, Any]) -> CreateRequest:
    """The request of `create NAME`."""
    count, cards = options["count"], tuple(options["cards"])
    if count is not None and cards:
        raise LxgpuError("usage", "--gpus and --gpu say the same thing twice", fix="give one of them")
    owner = options["owner"] or name
    given = tuple(key for source in options["key_files"] for key in _read_keys(source))
    return CreateRequest(
        gpus=GpuRequest(
            instance=name,
            owner=owner,
            more=len(cards) or (count.number if count else 0),
            uuids=cards,
            model=options["model"],
            class_name=options["class_name"],
        ),
        profile=options["profile"] or site.settings.profile,
        image=options["image"],
        flags=Terms(
            cpu=options["cpu"],
            memory_bytes=options["memory_bytes"],
            disk_bytes=options["disk_bytes"],
            processes=options["processes"],
        ),
        keys=tuple((key.fingerprint, key.text) for key in given),
        lease_s=options["lease_s"],
        expires_s=options["expires_s"],
    )


def wishes_from(site: Site, path: str, options: Mapping[str, Any]) -> list[CreateRequest]:
    """The requests of `create --from FILE`; flags hold for every row that does not say otherwise."""
    from lxgpu.config.classfile import read_classfile  # noqa: PLC0415

    if options["key_files"] or options["cards"] or options["owner"]:
        raise LxgpuError("usage", "--ssh-key, --gpu and --owner are for one container", fix="put them into the file")
    requests = []
    for row in read_classfile(Path(path)):
        base = one_wish(site, row.name, {**options, "owner": row.owner})
        gpus = base.gpus
        requests.append(
            CreateRequest(
                gpus=GpuRequest(
                    instance=row.name,
                    owner=row.owner,
                    more=gpus.more if row.gpus is None else row.gpus,
                    model=gpus.model,
                    class_name=row.class_name or gpus.class_name,
                ),
                profile=row.profile or base.profile,
                image=row.image or base.image,
                flags=base.flags,
                keys=tuple((key.fingerprint, key.text) for key in row.keys) or base.keys,
                lease_s=base.lease_s,
                expires_s=row.expires_s or base.expires_s,
            )
        )
    return requests


def show_created(out: Output, site: Site, names: Sequence[str]) -> None:
    """The containers that were made or were there, with how to get in."""
    from lxgpu.services.report import instance_views  # noqa: PLC0415

    from lxgpu.cli.listing import INSTANCE_COLUMNS  # noqa: PLC0415

    records = site.inventory.read()
    views = [view for view in instance_views(records, site.engine.instances(with_state=False), site.settings)]
    chosen = [view for view in views if view.name in set(names)]
    out.items("instances", chosen, INSTANCE_COLUMNS)
    if out.structured:
        return
    for view in chosen:
        out.screen.note(f"{view.name}: ssh -p {view.ssh.port} {view.ssh.user}@{view.ssh.host}")


def _read_keys(source: str) -> tuple[PublicKey, ...]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LxgpuError(
            "usage",
            f"--ssh-key {source}: {error.strerror}",
            fix="give the path of a .pub file, or - for standard input",
        ) from error
    keys = parse_keys(text)
    if not keys:
        raise LxgpuError("bad_key", f"--ssh-key {source}: there is no key in it", fix="ssh-keygen -t ed25519 makes one")
    return keys
