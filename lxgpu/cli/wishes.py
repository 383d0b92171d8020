"""From the words of `lxgpu create` to requests: keys found and checked, files read, everything wrong said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxgpu.cli.mig import counted
from lxgpu.cli.params import read_bytes
from lxgpu.cli.render import Output
from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.names import check_person
from lxgpu.model.quota import Terms
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.services.site import Site

if TYPE_CHECKING:
    from lxgpu.config.classfile import ClassRow


def one_wish(site: Site, name: str, options: Mapping[str, Any]) -> CreateRequest:
    """The request of `create NAME`."""
    count, cards = counted(options["count"], options["sliced"]), tuple(options["cards"])
    if count is not None and cards:
        what = "--mig" if options["sliced"] else "--gpus"
        raise LxgpuError("usage", f"{what} and --gpu say the same thing twice", fix="give one of them")
    owner = check_person(options["owner"] or name)
    given = tuple(key for source in options["key_files"] for key in read_keys(source))
    return CreateRequest(
        gpus=GpuRequest(
            instance=name,
            owner=owner,
            more=len(cards) or (count.number if count else 0),
            uuids=cards,
            model=count.of(options["model"]) if count else options["model"],
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
        keys=_pairs(given),
        lease_s=options["lease_s"],
        expires=site.clock.now() + timedelta(seconds=options["expires_s"]) if options["expires_s"] else None,
    )


def wishes_from(site: Site, path: str, options: Mapping[str, Any]) -> list[CreateRequest]:
    """The requests of `create --from FILE`; flags hold for every row that does not say otherwise."""
    from lxgpu.cli.classrows import check_rows  # noqa: PLC0415
    from lxgpu.config.classfile import parse_class  # noqa: PLC0415
    from lxgpu.config.source import read_source  # noqa: PLC0415

    if options["key_files"] or options["cards"] or options["owner"]:
        raise LxgpuError("usage", "--ssh-key, --gpu and --owner are for one container", fix="put them into the file")
    source = read_source(Path(path))
    rows = parse_class(source, now=site.clock.now(), zone=site.policy().zone)
    check_rows(site, source, rows)
    return [_row_wish(site, row, options) for row in rows]


def _row_wish(site: Site, row: ClassRow, options: Mapping[str, Any]) -> CreateRequest:
    base = one_wish(site, row.name, {**options, "owner": row.owner})
    gpus = replace(
        base.gpus,
        more=row.gpus or base.gpus.more,
        model=row.model or base.gpus.model,
        class_name=row.class_name or base.gpus.class_name,
    )
    return replace(
        base,
        gpus=gpus,
        profile=row.profile or base.profile,
        image=row.image or base.image,
        flags=row.terms.over(base.flags),
        keys=_pairs(row.keys) or base.keys,
        expires=row.expires or base.expires,
    )


def _pairs(keys: Sequence[PublicKey]) -> tuple[tuple[str, str], ...]:
    return tuple((key.fingerprint, key.text) for key in keys)


def show_created(out: Output, site: Site, names: Sequence[str]) -> None:
    """The containers that were made or were there, with how to get in."""
    from lxgpu.cli.listing import INSTANCE_COLUMNS  # noqa: PLC0415
    from lxgpu.services.report import instance_views  # noqa: PLC0415

    records = site.inventory.read()
    views = list(instance_views(records, site.engine.instances(with_state=False), site.settings))
    chosen = [view for view in views if view.name in set(names)]
    out.items("instances", chosen, INSTANCE_COLUMNS)
    if out.structured:
        return
    for view in chosen:
        out.screen.note(f"{view.name}: ssh -p {view.ssh.port} {view.ssh.user}@{view.ssh.host}")


def read_keys(source: str) -> tuple[PublicKey, ...]:
    """Public keys from a file, or from standard input for `-`; errors `usage`, `bad_key`."""
    name = "standard input" if source == "-" else source
    try:
        text = read_bytes(source).decode(errors="replace")
    except OSError as error:
        raise LxgpuError(
            "usage",
            f"{name} cannot be read",
            why=error.strerror or str(error),
            fix="give the path of a .pub file, or - for standard input",
        ) from error
    return parse_keys(text, name=name)
