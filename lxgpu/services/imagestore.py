"""The images that containers are made of: what there is, how one gets in, and what may go.

An image counts as used while a container was made of it, while its name is that of the settings, or while the
inventory would rebuild a container from it. An image that nobody prepared with success gets no name, so that a name
never leads to something unusable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lxgpu.config.profiles import Profile
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power, Sighting
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.policy.drift import TEMPLATE_PREFIX
from lxgpu.ports import Image
from lxgpu.services.images import READY, ensure_template, find_image, template_for
from lxgpu.services.site import Site
from lxgpu.services.wanted import KEY_TEMPLATE

LOCK = "image.store"
"""No instance is called that: a name has no dot."""
SHORTEST = 6
"""Characters of a fingerprint that are enough to name an image."""
BASE_IMAGE = "volatile.base_image"
"""LXD's own note of the image that an instance, or what it was copied from, was made of."""


@dataclass(frozen=True, slots=True)
class ImageView:
    """One image: schema `lxgpu.images/v1`. `prepared`: the next container is a copy, and takes a second."""

    name: str | None
    fingerprint: str
    aliases: tuple[str, ...]
    size_bytes: int
    created_at: datetime | None
    prepared: bool
    containers: int
    used: bool
    description: str


@dataclass(frozen=True, slots=True)
class Waste:
    """What nobody needs any more: names of templates, and images."""

    templates: tuple[str, ...]
    images: tuple[Image, ...]

    def plan(self) -> Plan:
        """What pruning would do."""
        steps = [PlannedStep("delete template", name, why="its image, profile or script is another now")
                 for name in self.templates]  # fmt: skip
        steps += [PlannedStep("delete image", title(image), why="no container was made of it, and no setting names it")
                  for image in self.images]  # fmt: skip
        return Plan(decision=Verdict.GRANTED, steps=tuple(steps))


def views(site: Site) -> tuple[ImageView, ...]:
    """All images of the store, those with a name first."""
    images, seen = site.engine.images(), site.engine.instances(with_state=False)
    profile = site.profile(site.settings.profile)
    ready = {one.name for one in seen if _ready(one)}
    made, needed = _made_of(seen), _needed(site, images, seen)
    found = [
        ImageView(
            name=image.aliases[0] if image.aliases else None,
            fingerprint=image.fingerprint,
            aliases=image.aliases,
            size_bytes=image.size_bytes,
            created_at=image.created_at,
            prepared=template_for(site, image.fingerprint, profile) in ready,
            containers=made[image.fingerprint],
            used=image.fingerprint in needed,
            description=image.description,
        )
        for image in images
    ]
    return tuple(sorted(found, key=lambda view: (view.name is None, view.name or "", view.fingerprint)))


def bring(site: Site, file: Path, *, alias: str) -> Image:
    """Put a tarball into the store, prepare it, and only then give it its name; repeatable.

    What an interruption leaves is an image without a name, which the same command takes up again and `image prune`
    takes away. Errors: `image_unusable`; the name then still leads where it led before.
    """
    with site.locks.hold(LOCK, wait_s=0) as free:
        if not free:
            raise _busy()
        return _bring(site, file, alias)


def _bring(site: Site, file: Path, alias: str) -> Image:
    site.say("handing the image to LXD")
    before = {image.fingerprint for image in site.engine.images()}
    image = site.engine.import_image(str(file), alias=None)
    try:
        ensure_template(site, image, site.profile(site.settings.profile))
    except LxgpuError:
        if image.fingerprint not in before:
            site.engine.delete_image(image.fingerprint)
        raise
    site.engine.name_image(image.fingerprint, alias)
    with site.write() as tx:
        tx.event("image", alias, detail={"fingerprint": image.fingerprint})
    return image


def prepare(site: Site, name: str, profile: Profile) -> Image:
    """Prepare an image that is there for a profile, with the software that it brings; the first container waits less.

    Errors: `no_image`, `image_unusable`, `conflict`.
    """
    with site.locks.hold(LOCK, wait_s=0) as free:
        if not free:
            raise _busy()
        image = find_image(site, name)
        ensure_template(site, image, profile)
    return image


def waste(site: Site, profiles: Iterable[Profile], *, named: bool = False) -> Waste:
    """What may go: stale templates, and images that nobody uses and that have no name; `named`: those with one too.

    `profiles` are all profiles there are: a template of any of them stays while its image does.
    """
    images, seen = site.engine.images(), site.engine.instances(with_state=False)
    needed = _needed(site, images, seen)
    unused = tuple(image for image in images if image.fingerprint not in needed and (named or not image.aliases))
    staying = [image for image in images if image not in unused]
    wanted = {template_for(site, image.fingerprint, profile) for image in staying for profile in profiles}
    stale = sorted(one.name for one in seen if _is_template(one) and one.name not in wanted)
    return Waste(templates=tuple(stale), images=tuple(sorted(unused, key=lambda image: image.fingerprint)))


def prune(site: Site, found: Waste) -> None:
    """Take it away; what another lxgpu is making or has begun to use meanwhile stays."""
    with site.locks.hold(LOCK, wait_s=0) as free:
        if not free:
            raise _busy()
        _prune(site, found)


def _prune(site: Site, found: Waste) -> None:
    for name in found.templates:
        with site.locks.hold(name, wait_s=0) as free:
            seen = site.engine.instance(name) if free else None
            if seen is not None and _is_template(seen):
                site.say(f"deleting {name}")
                site.engine.barrier(name)
                site.engine.stop(name, timeout_s=0, force=True)
                site.engine.delete(name)
    for image in found.images:
        if image.fingerprint in _needed(site, site.engine.images(), site.engine.instances(with_state=False)):
            site.say(f"{title(image)} stays: somebody uses it now")
            continue
        site.say(f"deleting {title(image)}")
        site.engine.delete_image(image.fingerprint)
    if found.templates or found.images:
        with site.write() as tx:
            names = [*found.templates, *(image.fingerprint for image in found.images)]
            tx.event("pruned", site.host, detail={"removed": names})


def _busy() -> LxgpuError:
    return LxgpuError("conflict", "another lxgpu is busy with the images", fix="repeat when it has ended")


def title(image: Image) -> str:
    """How people call an image: by its name, or by its fingerprint's beginning."""
    return image.aliases[0] if image.aliases else image.fingerprint[:12]


def _needed(site: Site, images: Iterable[Image], seen: Iterable[Sighting]) -> frozenset[str]:
    """The fingerprints of images that somebody uses, or would at the next rebuild or create."""
    settings = site.settings
    names = {settings.image, *settings.images, *settings.images.values()}
    names |= {row.image for row in site.inventory.read().instances if row.image}
    beginnings = [name for name in names if len(name) >= SHORTEST]
    by_name = {
        image.fingerprint
        for image in images
        if names & set(image.aliases) or any(image.fingerprint.startswith(name) for name in beginnings)
    }
    return frozenset(by_name | set(_made_of(seen)))


def _made_of(seen: Iterable[Sighting]) -> Counter[str]:
    """Containers by the fingerprint of their image; templates are none."""
    return Counter(one.config[BASE_IMAGE] for one in seen if BASE_IMAGE in one.config and not _is_template(one))


def _is_template(one: Sighting) -> bool:
    """A template of ours, or the beginning of one; nobody else's container of such a name."""
    return one.project == "default" and one.name.startswith(TEMPLATE_PREFIX) and KEY_TEMPLATE in one.config


def _ready(one: Sighting) -> bool:
    return _is_template(one) and one.config.get(KEY_TEMPLATE) == READY and one.power is Power.STOPPED
