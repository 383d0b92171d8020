"""What of LXD, the settings and the inventory is out of order; pure."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping

from lxgpu.services.checkup import Answer, Check, Look, Repair, Seen, Verdict

WARN_FULL, FAIL_FULL = 0.8, 0.9
"""A pool this full warns, and refuses new containers."""
_LATER = "start LXD, then lxgpu doctor"


def config(seen: Seen) -> Iterator[Check]:
    """config.yaml can be read; without one the defaults hold."""
    settings = seen.settings.value
    if settings is None:
        yield Check("config", Verdict.FAIL, seen.settings.why, "lxgpu config show says where")
        return
    there = settings.origins.get("config") != "default"
    text = f"settings from {settings.config}" if there else f"the defaults, and {settings.config} where that is there"
    yield Check("config", Verdict.OK, text)


def policy(seen: Seen) -> Iterator[Check]:
    """The policy file is the policy in force."""
    found, remedy = seen.policy.value, "lxgpu policy check"
    if found is None:
        verdict = Verdict.UNKNOWN if seen.policy.error is None else Verdict.FAIL
        fix = seen.policy.error.fix if seen.policy.error else ""
        yield Check("policy", verdict, f"no policy is in force: {seen.policy.why}", fix or remedy)
    elif found.broken is not None:
        text = f"the policy file has mistakes, the last good one holds: {found.broken.brief}"
        yield Check("policy", Verdict.FAIL, text, remedy)
    elif found.unkept and seen.host.root:
        text = f"the policy cannot be kept for the day its file breaks: {found.unkept}"
        yield Check("policy", Verdict.WARN, text, "make state_dir writable for root")
    else:
        yield Check("policy", Verdict.OK, "the policy file is in force")


def database(seen: Seen) -> Iterator[Check]:
    """The inventory's file is sound."""
    if seen.database.value:
        yield Check("database", Verdict.OK, "the inventory's file is sound")
    elif seen.database.value is False:
        yield Check("database", Verdict.OK, "there is no inventory yet; the first command makes it")
    elif seen.database.error is None:
        yield Check(
            "database", Verdict.UNKNOWN, "the inventory was not looked at", "lxgpu doctor, once config.yaml is right"
        )
    elif seen.database.error.code == "not_allowed":
        yield Check("database", Verdict.UNKNOWN, seen.database.why, "sudo lxgpu doctor")
    else:
        damaged = seen.database.error.code == "inventory_damaged"
        remedy = "lxgpu inventory rebuild" if damaged else seen.database.error.fix or "sudo lxgpu doctor"
        yield Check("database", Verdict.FAIL, seen.database.why, remedy)


def pool(seen: Seen) -> Iterator[Check]:
    """The pool enforces disk limits, and has room."""
    found = seen.pool.value
    if found is None:
        yield _unseen("pool", seen, seen.pool, "lxc storage list; set pool in config.yaml")
        return
    if found.enforces_quota:
        yield Check("pool", Verdict.OK, f"pool {found.name} ({found.driver}) enforces disk limits")
    else:
        text = f"pool {found.name} ({found.driver}) enforces no disk limit: one user can fill it for all"
        yield Check("pool", Verdict.WARN, text, "lxc storage create NAME btrfs, then set pool in config.yaml")
    if found.size_bytes is None or found.used_bytes is None:
        yield Check(
            "pool-space", Verdict.UNKNOWN, f"LXD does not say how full pool {found.name} is", "lxc storage info"
        )
        return
    share = found.used_bytes / found.size_bytes
    text = f"pool {found.name} is {100 * share:.0f} % full"
    if share < WARN_FULL:
        yield Check("pool-space", Verdict.OK, text)
    elif share < FAIL_FULL:
        yield Check(
            "pool-space", Verdict.WARN, f"{text}; at 90 % no container is made", "lxgpu image prune; lxgpu ls -o wide"
        )
    else:
        yield Check("pool-space", Verdict.FAIL, f"{text}: no container is made", "lxgpu image prune; lxgpu ls -o wide")


def bridge(seen: Seen) -> Iterator[Check]:
    """Containers need a bridge of LXD's with IPv4."""
    found = seen.network.value
    if found is None:
        yield _unseen("bridge", seen, seen.network, "lxc network create lxdbr0, or set network.bridge in config.yaml")
    elif not found.gateway:
        text = f"bridge {found.name} has no IPv4 address: no SSH port can be published"
        yield Check("bridge", Verdict.FAIL, text, f"lxc network set {found.name} ipv4.address auto")
    else:
        yield Check("bridge", Verdict.OK, f"bridge {found.name} has {found.gateway}")


def image(seen: Seen) -> Iterator[Check]:
    """The image that containers are made of is there."""
    if seen.settings.value is None:
        return
    if seen.images.value is None:
        yield _unseen("image", seen, seen.images, _LATER)
        return
    wanted = seen.settings.value.image
    if any(wanted in one.aliases for one in seen.images.value):
        yield Check("image", Verdict.OK, f"image {wanted} is there")
    else:
        remedy = f"lxgpu image build --alias {wanted}"
        yield Check("image", Verdict.WARN, f"there is no image {wanted}: create makes nothing", remedy)


def gpu_devices(seen: Seen) -> Iterator[Check]:
    """A gpu device without a selector passes every card."""
    if seen.sightings.value is None or seen.profiles.value is None:
        yield _unseen("gpu-devices", seen, seen.profiles, _LATER)
        return
    wrong = False
    for name, found in sorted(seen.profiles.value.items()):
        for device in _unselected(found):
            wrong = True
            text = f"profile {name} has the gpu device {device} without a selector: it passes every card"
            yield Check("gpu-devices", Verdict.FAIL, text, f"lxc profile device remove {name} {device}")
    for sighting in seen.sightings.value:
        for device in _unselected(sighting.devices):
            wrong = True
            project = "" if sighting.project == "default" else f" --project {sighting.project}"
            text = f"{sighting.name} has the gpu device {device} without a selector: it has every card"
            yield Check(
                "gpu-devices", Verdict.FAIL, text, f"lxc config device remove {sighting.name} {device}{project}"
            )
    if not wrong:
        yield Check("gpu-devices", Verdict.OK, "every gpu device names its card")


def drift(seen: Seen) -> Iterator[Check]:
    """The inventory and LXD agree."""
    found = seen.findings.value
    if found is None:
        yield _unseen("drift", seen, seen.findings, "lxgpu inventory verify")
        return
    if not found:
        yield Check("drift", Verdict.OK, "the inventory and LXD agree")
    ours = {one.subject for one in found if one.code == "extra_card"}
    for one in found:
        verdict = Verdict.WARN if one.code in {"half_done", "moved_gpu", "orphan"} else Verdict.FAIL
        mended = one.code in {"extra_card", "half_done"} or (one.code == "double_card" and one.subject in ours)
        repair = Repair("drift", one.subject) if mended else None
        yield Check(f"drift-{one.code}", verdict, f"{one.subject}: {one.text}", one.fix, repair)


def files(seen: Seen) -> Iterator[Check]:
    """Nobody but root writes what lxgpu believes, and nobody reads what is secret."""
    wrong = False
    for one in seen.host.files:
        bad = one.mode & (0o022 | (0o044 if one.secret else 0))
        if stat.S_ISDIR(one.mode):
            bad |= one.mode & 0o022
        if one.uid != 0 and seen.host.root:
            wrong = True
            text = f"{one.path} belongs to user {one.uid}, who may change what lxgpu believes"
            yield Check("files", Verdict.FAIL, text, f"chown root {one.path}")
        if bad:
            wrong = True
            right = stat.S_IMODE(one.mode) & ~bad
            does = "write" if bad & 0o022 else "read"
            text = f"{one.path} has mode {stat.S_IMODE(one.mode):04o}: others may {does} it"
            repair = Repair("mode", one.path, right)
            yield Check("files", Verdict.FAIL, text, f"chmod {right:o} {one.path}", repair)
    if not wrong:
        yield Check("files", Verdict.OK, "settings, policy, keys and state are root's to write")


def private_keys(seen: Seen) -> Iterator[Check]:
    """A private key that lxgpu made is to be handed over, once."""
    if not seen.host.private_keys:
        yield Check("private-keys", Verdict.OK, "no private key lies about")
    for path in seen.host.private_keys:
        text = f"the private key {path} lies here: whoever reads it can log in"
        yield Check("private-keys", Verdict.WARN, text, f"hand it over, then rm {path}")


def passes(seen: Seen) -> Iterator[Check]:
    """The file of the page's links, sessions and invitations can be read, and none was lost."""
    found = seen.passes.value
    if found is None:
        error = seen.passes.error
        unseen = error is None or error.code == "not_allowed"
        remedy = (error.fix if error else "") or "sudo lxgpu doctor, once config.yaml is right"
        yield Check("passes", Verdict.UNKNOWN if unseen else Verdict.FAIL, seen.passes.why, remedy)
        return
    for path in found:
        text = f"{path} is broken: the links, sessions and invitations of the page in it are over"
        yield Check("passes", Verdict.WARN, text, f"lxgpu keys invite and gpu web give new ones; then rm {path}")
    if not found:
        yield Check("passes", Verdict.OK, "the links, sessions and invitations of the page can be read")


def _unselected(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    return sorted(name for name, device in found.items() if _passes_every_card(device))


def _passes_every_card(device: Mapping[str, str]) -> bool:
    """A vendor or product alone picks no card; nor does CDI's `all`."""
    if device.get("type") != "gpu":
        return False
    picked = any(device.get(key) for key in ("pci", "mig.uuid", "mdev"))
    return not picked and device.get("id", "") in {"", "nvidia.com/gpu=all"}


def _unseen(name: str, seen: Seen, answer: Answer[object], remedy: str) -> Check:
    """What could not be looked at: a finding of its own only where LXD itself answers."""
    if answer.error is None:
        return Check(
            name,
            Verdict.UNKNOWN,
            "not looked at, because something before it failed",
            "lxgpu doctor, once that is mended",
        )
    if seen.server.value is None:
        return Check(name, Verdict.UNKNOWN, "cannot be looked at while LXD does not answer", _LATER)
    return Check(name, Verdict.FAIL, answer.why, answer.error.fix or remedy)


CHECKS: tuple[Look, ...] = (
    config,
    policy,
    database,
    pool,
    bridge,
    image,
    gpu_devices,
    drift,
    files,
    private_keys,
    passes,
)
