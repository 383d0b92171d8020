"""The person's side of a container: account, keys, banner, and the proof that a login works."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Observation
from lxgpu.ports import Ran
from lxgpu.services.banner import refresh_banner
from lxgpu.services.site import Site
from lxgpu.services.wanted import Picture, home_path

SCRIPT_S = 60.0
LOGIN_S = 60.0
REFUSALS_S = 30.0
"""A system that is still starting may turn people away (/run/nologin); a door that stays shut for so long is shut."""
GIVE_AGAIN_S = 3.0
AGAIN_S = 0.1
LOOK = """
if [ -e /run/nologin ]; then echo "it is still starting: /run/nologin is there"; fi
getent passwd "$1" >/dev/null || echo "there is no account $1"
for file in "/etc/ssh/authorized_keys.d/$1" "/run/lxgpu/$1.keys"; do [ -s "$file" ] || echo "$file is not there"; done
journalctl -q -o cat -n 3 -u ssh -u sshd 2>/dev/null
:
"""
"""Run as root inside a container that refuses a login; `$1` is its person."""
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
        services=[service.name for service in wanted.profile.services],
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


def prove_login(site: Site, wanted: Picture, *, fresh: bool) -> None:
    """Give the account, and log in as the person through the published port with a key of this one login.

    What refuses the key may be a system that still starts: it turns people away (/run/nologin), and what it mounts or
    writes at that moment may hide what was just given. So that is given again until the door has had its time.

    Raises:
        LxgpuError: `unavailable`, `login_failed`: where the login ended, and what was found inside.
    """
    person = wanted.person
    private, public = site.login.new_key("lxgpu check")
    ends = site.clock.monotonic() + REFUSALS_S
    while True:
        give_account(site, wanted, check_key=public, fresh=fresh)
        again = min(ends, site.clock.monotonic() + GIVE_AGAIN_S)
        try:
            ran = _enter(site, wanted, private, until=again)
            break
        except LxgpuError as error:
            if site.clock.monotonic() >= ends:
                raise LxgpuError(
                    error.code, error.brief, why=[*error.why, *_inside(site, wanted)], fix=error.fix
                ) from error
    lines = [line.strip() for line in ran.output.splitlines()]
    if ran.status != 0 or person.name not in lines:  # their shell's own start-up files may write lines too
        raise LxgpuError(
            "login_failed",
            f"the login as {person.name} through port {person.ssh_port} did not end in their container",
            why=f"`id -un` gave {ran.output.strip()!r}, status {ran.status}",
            fix="lxgpu doctor looks at ports and sshd",
        )


def _enter(site: Site, wanted: Picture, private_key: str, *, until: float) -> Ran:
    """One login, tried until a time of the clock that never goes back; it takes its key away from inside."""
    person = wanted.person
    while True:
        try:
            return site.login.check(
                host=site.settings.network.listen,
                port=person.ssh_port,
                user=person.name,
                private_key=private_key,
                timeout_s=LOGIN_S,
                command=f"id -un; sudo -n rm -f /run/lxgpu/{person.name}.keys",
            )
        except LxgpuError:
            if site.clock.monotonic() >= until:
                raise
            site.clock.sleep(AGAIN_S)


def _inside(site: Site, wanted: Picture) -> list[str]:
    """What a system that lets nobody in says of itself, for the error; nothing when it cannot be asked."""
    try:
        ran = site.engine.run(
            wanted.instance.name, ["sh", "-c", LOOK, "look", wanted.person.name], environment={}, timeout_s=SCRIPT_S
        )
    except LxgpuError:
        return []
    return [f"inside: {line}" for line in ran.output.strip().splitlines()[-8:]]
