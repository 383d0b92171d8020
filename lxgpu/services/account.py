"""The person's side of a container: account, keys, banner, and the proof that a login works."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.services.site import Site
from lxgpu.services.wanted import Picture, home_path

SCRIPT_S = 60.0
LOGIN_S = 60.0
REFUSALS_S = 15.0
"""A system that is still starting may turn people away (/run/nologin); a door that stays shut for so long is shut."""
AGAIN_S = 0.1
KEYS_FILE = "/etc/ssh/authorized_keys.d/{name}"


def give_account(site: Site, wanted: Picture, *, check_key: str = "", keys_only: bool = False) -> None:
    """Write account, keys and banner into a running container; `check_key` is one more key for one login.

    With `keys_only` just the file of the keys is written.
    """
    name, keys = wanted.instance.name, [*wanted.keys, *([check_key] if check_key else [])]
    if keys_only:
        text = "".join(f"{key}\n" for key in keys).encode()
        site.engine.push(name, KEYS_FILE.format(name=wanted.person.name), text, mode=0o644)
        return
    models = [gpu.model for gpu in wanted.gpus if gpu.uuid in {slot.gpu for slot in wanted.usable}]
    policy = site.policy()
    banner = site.texts.render("banner.txt.j2", instance=wanted.instance, gpus=models, contact=policy.contact)
    script = site.texts.render(
        "account.sh.j2",
        person=wanted.person,
        home=home_path(wanted.person.name),
        keys=keys,
        zone=policy.timezone,
        environment=dict(wanted.profile.environment),
        banner=banner,
    )
    ran = site.engine.run(name, ["sh", "-c", script], environment={}, timeout_s=SCRIPT_S)
    if ran.status != 0:
        raise LxgpuError(
            "bootstrap_failed",
            f"the account of {wanted.person.name} could not be made in {name}",
            why=ran.output.strip().splitlines()[-5:] or f"the script ended with status {ran.status}",
            fix="look at the image: lxgpu image ls; templates/account.sh.j2 is what was run",
        )


def login_works(site: Site, wanted: Picture, private_key: str) -> None:
    """Log in as the person through the published port; error `login_failed` says where it ended."""
    person, ends = wanted.person, site.clock.monotonic() + REFUSALS_S
    while True:
        try:
            ran = site.login.check(
                host=site.settings.network.listen,
                port=person.ssh_port,
                user=person.name,
                private_key=private_key,
                timeout_s=LOGIN_S,
                command="id -un",
            )
            break
        except LxgpuError:
            if site.clock.monotonic() >= ends:
                raise
            site.clock.sleep(AGAIN_S)
    if ran.status != 0 or ran.output.strip() != person.name:
        raise LxgpuError(
            "login_failed",
            f"the login as {person.name} through port {person.ssh_port} did not end in their container",
            why=f"`id -un` gave {ran.output.strip()!r}, status {ran.status}",
            fix="lxgpu doctor looks at ports and sshd",
        )
