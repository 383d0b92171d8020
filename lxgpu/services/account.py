"""The person's side of a container: account, keys, banner, and the proof that a login works."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Observation
from lxgpu.services.banner import refresh_banner
from lxgpu.services.site import Site
from lxgpu.services.wanted import Picture, home_path

SCRIPT_S = 60.0
LOGIN_S = 60.0
REFUSALS_S = 15.0
"""A system that is still starting may turn people away (/run/nologin); a door that stays shut for so long is shut."""
AGAIN_S = 0.1
GPU = {"program": "gpu", "completion": "gpu.bash", "manual": "gpu.1"}
"""What is installed of `gpu` inside, and the file below templates/guest that it is."""


def give_account(site: Site, wanted: Picture, *, check_key: str = "", fresh: bool = False) -> None:
    """Make account, keys, banner and `gpu` right in a running container; `check_key` is one more key, for one login.

    In a `fresh` system, just made from an image, an account of the image that has the person's number is removed.
    """
    name = wanted.instance.name
    refresh_banner(site, [name], seen=_seen(site, wanted))
    script = site.texts.render(
        "account.sh.j2",
        person=wanted.person,
        home=home_path(wanted.person.name),
        keys=wanted.keys,
        check_key=check_key,
        fresh=fresh,
        zone=site.policy().timezone,
        environment=dict(wanted.profile.environment),
        gpu={part: site.texts.render(f"guest/{file}").rstrip("\n") for part, file in GPU.items()},
    )
    ran = site.engine.run(name, ["sh", "-c", script], environment={}, timeout_s=SCRIPT_S)
    if ran.status != 0:
        raise LxgpuError(
            "bootstrap_failed",
            f"the account of {wanted.person.name} could not be made in {name}",
            why=ran.output.strip().splitlines()[-5:] or f"the script ended with status {ran.status}",
            fix="look at the image: lxgpu image ls; templates/account.sh.j2 is what was run",
        )


def _seen(site: Site, wanted: Picture) -> Observation | None:
    """What the banner's first line counts; None, which it says, when LXD does not answer at this moment."""
    try:
        sightings = site.engine.instances(with_state=False)
    except LxgpuError:
        return None
    return Observation(host=site.host, boot_id="", at=site.clock.now(), gpus=wanted.gpus, sightings=sightings)


def login_works(site: Site, wanted: Picture, private_key: str) -> None:
    """Log in as the person through the published port, and take the key of this login away from inside.

    Error `login_failed` says where the login ended.
    """
    person, ends = wanted.person, site.clock.monotonic() + REFUSALS_S
    while True:
        try:
            ran = site.login.check(
                host=site.settings.network.listen,
                port=person.ssh_port,
                user=person.name,
                private_key=private_key,
                timeout_s=LOGIN_S,
                command=f"id -un; sudo -n rm -f /run/lxgpu/{person.name}.keys",
            )
            break
        except LxgpuError:
            if site.clock.monotonic() >= ends:
                raise
            site.clock.sleep(AGAIN_S)
    lines = [line.strip() for line in ran.output.splitlines()]
    if ran.status != 0 or person.name not in lines:  # their shell's own start-up files may write lines too
        raise LxgpuError(
            "login_failed",
            f"the login as {person.name} through port {person.ssh_port} did not end in their container",
            why=f"`id -un` gave {ran.output.strip()!r}, status {ran.status}",
            fix="lxgpu doctor looks at ports and sshd",
        )
