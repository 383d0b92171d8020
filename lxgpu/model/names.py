"""Names of people, instances and other things: one rule, told before any work is done."""

from __future__ import annotations

import re
import secrets

from lxgpu.errors import LxgpuError

LONGEST_NAME = 63
"""Characters of an instance's name: it is a host name."""
LONGEST_PERSON = 32
"""Characters of a person's name: Linux's own tools make no longer account."""
RULE = (
    "a name has 1 to 63 characters: a lower-case letter first, then letters, digits and hyphens, no hyphen at the end"
)

_RUN = re.compile(r"run-(.+)-[0-9a-f]{6}")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_RESERVED_PREFIXES = ("trash-", "lxgpu-")
_RESERVED_NAMES = frozenset({"lxgpu", "trash", "any", "all", "localhost"})

# Accounts that Debian and Ubuntu have or make for their own services; a login of that name would be theirs.
_SYSTEM_ACCOUNTS = """
root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup sshd ssh
messagebus polkitd syslog uuidd tss landscape pollinate tcpdump dnsmasq avahi rtkit pulse gdm lightdm usbmux ntp chrony
postfix exim bind mysql postgres redis docker lxd incus libvirt-qemu nvidia-persistenced fwupd-refresh systemd-network
systemd-resolve systemd-timesync systemd-coredump systemd-oom adm tty disk kmem dialout fax voice cdrom floppy tape sudo
audio dip operator src shadow utmp video sasl plugdev staff users input sgx kvm render crontab debian ubuntu admin wheel
"""
SYSTEM_ACCOUNTS = frozenset(_SYSTEM_ACCOUNTS.split())


def run_name(person: str) -> str:
    """A fresh name for a throw-away container; it says whose it is, for when nothing else of it is left."""
    return f"run-{person}-{secrets.token_hex(3)}"


def owner_by_name(name: str) -> str:
    """Whose a container was that is gone, as far as its name tells: a run says so, others had their person's name."""
    found = _RUN.fullmatch(name)
    return found[1] if found else name


def name_fault(name: str) -> str:
    """Returns what is wrong with an instance's name, or an empty text; pure, for lists of faults."""
    if not name:
        return "the name is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, and {LONGEST_NAME} are the most"
    if not ("a" <= name[0] <= "z"):
        return f"it starts with {name[0]!r} and not with a lower-case letter"
    if not _NAME.fullmatch(name):
        odd = sorted({char for char in name if not re.fullmatch(r"[a-z0-9-]", char)})
        return f"it has {', '.join(map(repr, odd))} in it" if odd else "it ends with a hyphen"
    if name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES):
        return "lxgpu keeps this name for itself"
    return ""


def person_fault(name: str) -> str:
    """Returns what is wrong with a person's name, or an empty text: the rule of names, and of Linux accounts."""
    fault = name_fault(name)
    if fault:
        return fault
    if name in SYSTEM_ACCOUNTS:
        return "it is an account of the system"
    if len(name) > LONGEST_PERSON:
        return f"it has {len(name)} characters, and a Linux account has {LONGEST_PERSON} at most"
    return ""


def check_name(name: str) -> str:
    """Returns the name of an instance, group, host, profile or class if it follows the rule.

    Raises:
        LxgpuError: `bad_name`, with the rule and, where there is one, a name that would do.
    """
    return _checked(name, name_fault(name))


def check_person(name: str) -> str:
    """Returns the name of a person, which is a Unix account inside the container, if it follows the rule.

    Raises:
        LxgpuError: `bad_name`.
    """
    return _checked(name, person_fault(name))


def _checked(name: str, fault: str) -> str:
    if fault:
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_PERSON].rstrip("-")
        fix = f"{near} would do" if near and not person_fault(near) else ""
        raise LxgpuError("bad_name", f"{name!r} cannot be a name: {fault}", why=RULE, fix=fix)
    return name
