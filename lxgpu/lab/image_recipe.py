"""What the base image consists of. The image's cache is keyed by a hash of all that stands here."""

from __future__ import annotations

import json
from hashlib import sha256

SUITE = "bookworm"
PACKAGES = (
    "openssh-server", "sudo", "systemd", "systemd-sysv", "systemd-resolved", "dbus", "iproute2", "netbase",
    "ca-certificates", "python3", "tmux", "rsync", "procps", "bsdutils", "less", "nano",
    "man-db", "bash-completion",  # for `man gpu` and the completion of gpu
)  # fmt: skip

# Units that only cost time at boot in a container.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "getty@tty1.service", "getty.target", "console-getty.service", "systemd-pstore.service",
    "remote-fs.target", "systemd-networkd-wait-online.service", "systemd-journal-flush.service",
    "systemd-firstboot.service", "systemd-machine-id-commit.service", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount", "dev-mqueue.mount",
    "systemd-modules-load.service", "systemd-sysctl.service", "systemd-udevd.service", "systemd-udev-trigger.service",
    "systemd-hwdb-update.service", "systemd-network-generator.service", "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service", "systemd-binfmt.service", "modprobe@.service",
    "man-db.timer",
)  # fmt: skip
ENABLED = ("systemd-networkd.service", "systemd-resolved.service", "ssh.service")

# sshd as Debian starts it, but as soon as there are file systems: it needs no network to listen, and no test
# of its settings before each start. Host keys are made where none were put.
SSH_UNIT = """\
[Unit]
Description=OpenBSD Secure Shell server
DefaultDependencies=no
Requires=local-fs.target
After=local-fs.target systemd-tmpfiles-setup.service
Conflicts=shutdown.target
Before=shutdown.target
ConditionPathExists=!/etc/ssh/sshd_not_to_be_run

[Service]
Type=notify
EnvironmentFile=-/etc/default/ssh
ExecStartPre=/bin/sh -c 'test -s /etc/ssh/ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key'
ExecStart=/usr/sbin/sshd -D $SSHD_OPTS
ExecReload=/bin/kill -HUP $MAINPID
KillMode=process
Restart=on-failure
RestartPreventExitStatus=255
RuntimeDirectory=sshd
RuntimeDirectoryMode=0755

[Install]
WantedBy=multi-user.target
Alias=sshd.service
"""  # noqa: E501 -- a unit's command stands on one line

# What people do not wait for starts when sshd and the network are there, so that a login has the processor to itself.
LATER = "[Unit]\nAfter=ssh.service systemd-networkd.service\n"

FILES: dict[str, str] = {
    "etc/systemd/system/ssh.service": SSH_UNIT,
    "etc/systemd/network/10-eth0.network": (
        "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n\n"
        "[DHCPv4]\nUseHostname=no\nClientIdentifier=mac\n"
    ),
    # There is no udevd in here, and networkd waits for its word on each link for ever, unless /sys looks read-only.
    "etc/systemd/system/systemd-networkd.service.d/10-no-udev.conf": "[Service]\nReadOnlyPaths=/sys\n",
    "etc/systemd/system/systemd-resolved.service.d/10-later.conf": LATER,
    "etc/systemd/system/systemd-logind.service.d/10-later.conf": LATER,
    # Each container would answer for its name to everybody on the bridge.
    "etc/systemd/resolved.conf.d/10-quiet.conf": "[Resolve]\nLLMNR=no\nMulticastDNS=no\n",
    "etc/ssh/sshd_config.d/10-lxgpu.conf": "UseDNS no\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/machine-id": "",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
}
LINKS: dict[str, str] = {
    "etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf",
    # "System is booting up": sshd listens before the last unit has started, and people may come in then.
    "etc/tmpfiles.d/systemd-nologin.conf": "/dev/null",
}

# What must differ between containers, and what apt can fetch again.
REMOVED = (
    "etc/hostname", "etc/ssh/ssh_host_*", "var/lib/dbus/machine-id", "var/cache/apt/*", "var/lib/apt/lists/*",
    "var/log/*.log", "var/log/apt/*", "var/cache/ldconfig/*", "usr/share/man/??", "usr/share/man/??_*",
    "usr/share/locale/*", "usr/share/info/*", "var/lib/systemd/random-seed", "root/.wget-hsts",
    "var/cache/man/*", "var/lib/man-db/auto-update",  # man finds its pages without an index, which apt would wait for
)  # fmt: skip


def recipe_key() -> str:
    """Sixteen hex digits that change whenever the recipe does."""
    return key_of(SUITE, PACKAGES, MASKED, ENABLED, FILES, LINKS, REMOVED)


def key_of(*parts: object) -> str:
    """Sixteen hex digits that stand for these parts, in this order."""
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
