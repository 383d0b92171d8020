"""Images and the templates made of them: a prepared, stopped container that every new one is a copy of.

A template costs once what each container would cost: unpacking, shifting, packages, the settings of sshd. It has no
host key, no machine-id and no account. It is found by the hash of the image and of the script that prepared it, so a
changed profile or a new image gets a new template by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from lxgpu.config.profiles import Profile
from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.instance import Power
from lxgpu.policy.drift import TEMPLATE_PREFIX
from lxgpu.ports import Change, Image
from lxgpu.services import instances
from lxgpu.services.site import Site
from lxgpu.services.wanted import KEY_TEMPLATE, KEY_UUID

READY, PREPARING = "ready", "preparing"
PREPARE_S = 1800.0
CERTIFICATES = "/root/.lxgpu-registries.pem"
"""Those that the host trusts, inside while a template is made: registries may be behind a proxy that has its own."""
_HASH = 12


def find_image(site: Site, name: str) -> Image:
    """An image by alias or by (the beginning of) its fingerprint; empty: the one of the settings."""
    wanted = name or site.settings.image
    images = site.engine.images()
    hits = [image for image in images if wanted in image.aliases] or [
        image
        for image in images
        if len(wanted) >= 6 and image.fingerprint.startswith(wanted)  # noqa: PLR2004
    ]
    if len(hits) == 1:
        return hits[0]
    known = ", ".join(sorted(alias for image in images for alias in image.aliases)) or "none"
    raise LxgpuError(
        "no_image",
        f"there is no image {wanted!r}",
        why=f"images here: {known}",
        fix="lxgpu image build makes the base image; lxgpu image import FILE --alias NAME brings another",
    )


def template_for(site: Site, fingerprint: str, profile: Profile) -> str:
    """The name of the template of an image under a profile."""
    script = _script(site, profile)
    digest = hashlib.sha256(f"{fingerprint}\n{script}".encode()).hexdigest()
    return f"{TEMPLATE_PREFIX}{digest[:_HASH]}"


def ensure_template(site: Site, image: Image, profile: Profile) -> str:
    """The template, made now if it is not there; making it takes seconds to minutes, once."""
    name = template_for(site, image.fingerprint, profile)
    if _ready(site, name):
        return name
    with site.locks.hold(name, wait_s=PREPARE_S) as held:
        if not held:
            raise LxgpuError("conflict", f"{name} is being made by another lxgpu for very long", fix="lxgpu doctor")
        if not _ready(site, name):
            _remove(site, name)
            site.say(f"preparing image {_title(image)} {_for(profile)}(once)")
            try:
                _make(site, name, image, profile)
            except BaseException:
                _remove_what_is_left(site, name)
                raise
    return name


def _make(site: Site, name: str, image: Image, profile: Profile) -> None:
    every = tuple(node for gpu in site.engine.gpus() for node in gpu.nodes)
    start = Change(
        config={
            "boot.autostart": "false",
            "raw.lxc": devices.deny_rules(every),
            **profile.config,
            KEY_TEMPLATE: PREPARING,
        },
        devices={
            "root": devices.root_device(pool=site.settings.pool, size_bytes=None),
            "eth0": {"type": "nic", "network": site.settings.network.bridge, "name": "eth0"},
        },
    )
    site.engine.create(name, source=f"image:{image.fingerprint}", change=start, profiles=())
    site.engine.start(name)
    environment = _registries(site, name, profile)
    ran = site.engine.run(name, ["sh", "-c", _script(site, profile)], environment=environment, timeout_s=PREPARE_S)
    if ran.status != 0:
        raise LxgpuError(
            "image_unusable",
            "the image could not be prepared for use",
            why=ran.output.strip().splitlines()[-8:] or f"the script ended with status {ran.status}",
            fix=_fix(image, profile),
        )
    site.engine.stop(name, timeout_s=20, force=False)
    instances.put(
        site,
        name,
        lambda seen: Change(config={KEY_TEMPLATE: READY, KEY_UUID: seen.uuid}),
        read=instances.present,
    )


def _registries(site: Site, name: str, profile: Profile) -> Mapping[str, str]:
    """What makes pip and apt inside reach their registries as those of the host do, for one program.

    The certificates lie outside of /run, over which systemd mounts an empty one while the container starts.
    """
    reach = site.registries()
    if not profile.pip or not reach.certificates:
        return reach.environment
    site.engine.push(name, CERTIFICATES, reach.certificates, mode=0o600)
    return {**reach.environment, "PIP_CERT": CERTIFICATES}


def _ready(site: Site, name: str) -> bool:
    seen = site.engine.instance(name)
    return seen is not None and seen.ours and seen.config.get(KEY_TEMPLATE) == READY and seen.power is Power.STOPPED


def _remove(site: Site, name: str) -> None:
    seen = site.engine.instance(name)
    if seen is not None:
        instances.settle(site, name)  # a start that was interrupted may land after a look at it
        site.engine.stop(name, timeout_s=0, force=True)
        site.engine.delete(name)


def _remove_what_is_left(site: Site, name: str) -> None:
    """After a failure, whose own error is the one to tell: what stays now, the next try or prune removes."""
    try:
        _remove(site, name)
    except LxgpuError as error:
        site.say(f"{name} is left, and lxgpu image prune takes it away: {error.brief}")


def _title(image: Image) -> str:
    return image.aliases[0] if image.aliases else image.fingerprint[:12]


def _for(profile: Profile) -> str:
    return f"for profile {profile.name}, which brings packages: minutes " if profile.brings else ""


def _fix(image: Image, profile: Profile) -> str:
    if profile.brings:
        return (
            f"lxgpu image build --profile {profile.name} --alias {_title(image)} tries again; packages come from where"
            " pip and apt of this host get theirs"
        )
    return "use an image with systemd and sshd (lxgpu image build makes one), or give the host a way out"


def _script(site: Site, profile: Profile) -> str:
    return site.texts.render(
        "prepare.sh.j2",
        packages=profile.packages,
        pip=profile.pip,
        services=profile.services,
        setup=profile.setup,
        certificates=CERTIFICATES,
    )
