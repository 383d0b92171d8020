"""What of the host itself decides whether containers with cards work; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxgpu.ports.facts import Door, IdRange
from lxgpu.services.checkup import Check, Look, Repair, Seen, Verdict
from lxgpu.services.pageplace import oddities

OLDEST_PYLXD = (2, 4, 1)
"""Older ones cannot open LXD's socket with a current `requests`."""
SYSCTLS: Mapping[str, tuple[int, str]] = {
    "fs.inotify.max_user_instances": (1024, "systemd in every container needs some; at 128 the 18th one stops"),
    "fs.inotify.max_user_watches": (524288, "editors and file watchers of all containers share them"),
    "kernel.keys.maxkeys": (2000, "every container and session takes keys"),
    "kernel.keys.maxbytes": (2000000, "every container and session takes keys"),
    "vm.max_map_count": (262144, "large models are mapped in many pieces"),
}
"""Kernel parameter → the least that is enough, and why."""
LEAST_IDS = 65536
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "9p", "lustre", "glusterfs"})
_SNAP = "/var/snap/"
_LOW_SPACE = 0.05
_NVIDIA = ("nvidiactl", "nvidia-uvm")


def root(seen: Seen) -> Iterator[Check]:
    """Who asks decides what can be seen at all."""
    if seen.host.root:
        yield Check("root", Verdict.OK, "lxgpu runs as root")
    else:
        text = "lxgpu does not run as root: what others may not read is not judged"
        yield Check("root", Verdict.WARN, text, "sudo lxgpu doctor")


def capability(seen: Seen) -> Iterator[Check]:
    """Limits such as memlock can be raised only with CAP_SYS_RESOURCE."""
    if not seen.host.root:
        yield Check("capability", Verdict.UNKNOWN, "only root's own capabilities say something", "sudo lxgpu doctor")
    elif seen.host.may_raise:
        yield Check("capability", Verdict.OK, "resource limits can be raised at will")
    else:
        text = (
            "without CAP_SYS_RESOURCE no limit can be raised: containers get memlock and nofile as this host has them"
        )
        yield Check("capability", Verdict.WARN, text, "run LXD and lxgpu on the host itself, not in a container")


def packages(seen: Seen) -> Iterator[Check]:
    """The Python packages that speak to LXD and NVML."""
    found = seen.host.packages.get("pylxd")
    if found is None:
        yield Check("pylxd", Verdict.FAIL, "pylxd is not installed", "pip install 'pylxd>=2.4.1'")
    elif _numbers(found) < OLDEST_PYLXD:
        text = f"pylxd {found} cannot open LXD's socket with a current requests"
        yield Check("pylxd", Verdict.FAIL, text, "pip install --upgrade 'pylxd>=2.4.1'")
    else:
        yield Check("pylxd", Verdict.OK, f"pylxd {found}")
    deprecated = seen.host.packages.get("pynvml")
    if deprecated is not None:
        text = (
            f"the deprecated package pynvml {deprecated} is installed and may hide nvidia-ml-py's module of that name"
        )
        remedy = "pip uninstall --yes pynvml && pip install --force-reinstall nvidia-ml-py"
        yield Check("pynvml", Verdict.WARN, text, remedy)
    else:
        yield Check("pynvml", Verdict.OK, "NVML's module comes from nvidia-ml-py")


def lxd(seen: Seen) -> Iterator[Check]:
    """Whether LXD answers, and if not, which of the three reasons it is."""
    place = seen.host.socket
    if seen.server.value is not None:
        server = seen.server.value
        yield Check("lxd", Verdict.OK, f"{server.kind} {server.version} answers on {place}")
        return
    if seen.server.error is None and seen.host.door is Door.OPEN:
        yield Check("lxd", Verdict.OK, f"something listens on {place}; it is asked once config.yaml is right")
        return
    starts = "snap start lxd" if place.startswith(_SNAP) else "systemctl start lxd"
    install = "install LXD, or name its socket in config.yaml (hosts)"
    if seen.host.lab:  # its LXD is no unit of systemd
        starts = install = f"lxgpu lab up --name {seen.host.lab}"
    texts = {
        Door.MISSING: (f"there is no socket {place}", install),
        Door.REFUSED: (f"nobody listens on {place}: the daemon has stopped or is being restarted", starts),
        Door.DENIED: (f"{place} may not be opened by this user", "sudo lxgpu doctor"),
    }
    text, remedy = texts.get(seen.host.door, (f"{place}: {seen.server.why}", f"{starts}; its log tells more"))
    yield Check("lxd", Verdict.FAIL, text, remedy)


def driver(seen: Seen) -> Iterator[Check]:
    """Kernel module and library are of one version, and NVML says so too."""
    host, readings = seen.host, seen.readings
    cards = len(seen.gpus.value or ())
    if host.driver and host.library and host.driver != host.library:
        text = f"the kernel runs driver {host.driver}, the library is {host.library}: upgraded under running jobs"
        yield Check("driver", Verdict.FAIL, text, "reboot when the running jobs have ended (lxgpu ls lists them)")
    elif host.driver:
        yield Check("driver", Verdict.OK, f"NVIDIA driver {host.driver}")
    elif cards and (readings is None or readings.error):
        text = f"LXD sees {cards} cards, and no NVIDIA driver is loaded"
        yield Check("driver", Verdict.FAIL, text, "install NVIDIA's driver, then modprobe nvidia")
    else:
        yield Check("driver", Verdict.OK, "no NVIDIA driver is loaded, and none is missed")


def nvml(seen: Seen) -> Iterator[Check]:
    """NVML answers for every card that LXD shows."""
    readings, cards = seen.readings, seen.gpus.value
    if readings is None:
        yield Check("nvml", Verdict.UNKNOWN, "NVML was not asked", "lxgpu doctor, once config.yaml is right")
        return
    if readings.error:
        if cards == () and seen.host.driver is None:
            yield Check("nvml", Verdict.OK, "no cards and no NVML on this host")
            return
        if cards is None and seen.host.driver is None:
            text = "no NVIDIA driver is loaded; whether there are cards, LXD will say"
            yield Check("nvml", Verdict.UNKNOWN, text, "start LXD, then lxgpu doctor")
            return
        versions = f" (kernel module {seen.host.driver}, library {seen.host.library})" if seen.host.driver else ""
        yield Check(
            "nvml", Verdict.FAIL, f"{readings.error}{versions}", "nvidia-smi says more; a reboot loads the new driver"
        )
        return
    sick = [f"{item.uuid or f'card {item.index}'}: {item.fault}" for item in readings.items if item.fault]
    told = {item.uuid for item in readings.items}
    silent = sorted(gpu.uuid for gpu in cards or () if gpu.uuid not in told)
    if sick:
        yield Check(
            "nvml", Verdict.FAIL, f"NVML cannot read {'; '.join(sick)}", "dmesg | grep -i xid, then lxgpu gpu show"
        )
    if silent:
        yield Check("nvml", Verdict.WARN, f"NVML does not show {', '.join(silent)}, LXD does", "dmesg | grep -i nvrm")
    if not sick and not silent:
        yield Check("nvml", Verdict.OK, f"NVML answers for {len(told)} cards, driver {readings.driver or 'unknown'}")


def nodes(seen: Seen) -> Iterator[Check]:
    """Without these nodes containers start and find no card."""
    if seen.host.driver is None:
        yield Check("nodes", Verdict.OK, "no kernel driver, so no nodes of it are needed")
        return
    missing = [f"/dev/{name}" for name in _NVIDIA if not seen.host.nodes.get(name)]
    if not missing:
        yield Check("nodes", Verdict.OK, "nvidiactl and nvidia-uvm are there")
        return
    remedy = "nvidia-modprobe -c 0 -u; systemctl enable --now nvidia-persistenced does it at every boot"
    text = f"{' and '.join(missing)} missing: containers that start now find no card"
    yield Check("nodes", Verdict.FAIL, text, remedy, Repair("nodes"))


def device_rule(seen: Seen) -> Iterator[Check]:
    """The rule that keeps a taken card closed really works here: tried on a cgroup that goes again."""
    chosen = seen.settings.value.device_rule if seen.settings.value else "auto"
    rules, version = seen.host.rules, seen.host.cgroups
    if chosen == "off":
        text = "device_rule is off: who once had a card may open it again after it was taken"
        yield Check("device-rule", Verdict.WARN, text, "set device_rule: auto in config.yaml")
        return
    ways = ("v1", "bpf") if chosen == "auto" else (chosen,)
    way = next((name for name in ways if name in rules), None)
    if not seen.host.root:
        yield Check(
            "device-rule", Verdict.UNKNOWN, f"cgroup {version}; only root can try the rule", "sudo lxgpu doctor"
        )
    elif way is None:
        text = f"cgroup {version} has no way {chosen} to deny a device"
        yield Check("device-rule", Verdict.FAIL, text, "set device_rule: auto in config.yaml, and mount cgroup2")
    elif rules[way]:
        text = f"cgroup {version}: cards cannot be denied by {way}: {rules[way]}"
        yield Check("device-rule", Verdict.FAIL, text, "run lxgpu as root on the host itself, outside of any container")
    else:
        yield Check(
            "device-rule", Verdict.OK, f"cgroup {version}: denying a device by {way} works, and so does lifting it"
        )


def subids(seen: Seen) -> Iterator[Check]:
    """LXD maps the ids of all containers into root's ranges."""
    host = seen.host
    if host.socket.startswith(_SNAP):
        yield Check("subids", Verdict.OK, "the snap brings its own id ranges")
        return
    if not host.shadow:
        yield Check("subids", Verdict.OK, "without newuidmap LXD takes its own id ranges")
        return
    for file, ranges in (("subuid", host.subuid), ("subgid", host.subgid)):
        most = max((one.count for one in ranges), default=0)
        if most >= LEAST_IDS:
            yield Check(file, Verdict.OK, f"root may map {most} ids (/etc/{file})")
            continue
        had = f"only {most}" if ranges else "none"
        text = f"/etc/{file} gives root {had} of the {LEAST_IDS} ids that a container needs: containers do not start"
        yield Check(file, Verdict.FAIL, text, f"echo root:1000000:1000000000 >>/etc/{file}, then restart LXD")


def idmaps(seen: Seen) -> Iterator[Check]:
    """`raw.idmap` of an instance wants host ids that root may map."""
    if seen.sightings.value is None:
        return
    if seen.host.socket.startswith(_SNAP) or not seen.host.shadow:
        return
    for sighting in seen.sightings.value:
        for line in sighting.config.get("raw.idmap", "").splitlines():
            kind, *numbers = line.split()
            first = numbers[0] if numbers else ""
            for file, word, ranges in (("subuid", "uid", seen.host.subuid), ("subgid", "gid", seen.host.subgid)):
                if kind in {word, "both"} and not _mapped(first, ranges):
                    text = f"{sighting.name} maps the host's {word} {first}, which /etc/{file} does not give root"
                    remedy = f"echo root:{first.partition('-')[0]}:1 >>/etc/{file}, then restart LXD"
                    yield Check(f"idmap-{word}", Verdict.FAIL, text, remedy)


def sysctls(seen: Seen) -> Iterator[Check]:
    """Kernel parameters that one busy user can use up for all."""
    for name, (least, why) in SYSCTLS.items():
        found = seen.host.sysctls.get(name)
        if found is None:
            yield Check(name, Verdict.UNKNOWN, f"{name} cannot be read here", f"sysctl {name}")
        elif found < least:
            text = f"{name} is {found}, {least} is the least: {why}"
            yield Check(name, Verdict.WARN, text, f"sysctl -w {name}={least}", Repair("sysctl", name, least))
        else:
            yield Check(name, Verdict.OK, f"{name} is {found}")


def ports(seen: Seen) -> Iterator[Check]:
    """SSH ports stay clear of those that the host's own connections come from."""
    if seen.settings.value is None or seen.host.local_ports is None:
        return
    mine, (first, last) = seen.settings.value.network.ports, seen.host.local_ports
    if mine[0] <= last and first <= mine[-1]:
        text = (
            f"network.ports {mine[0]}-{mine[-1]} overlap the host's own {first}-{last}: a port may be taken at a start"
        )
        yield Check("ports", Verdict.WARN, text, f"sysctl -w net.ipv4.ip_local_reserved_ports={mine[0]}-{mine[-1]}")
    else:
        yield Check("ports", Verdict.OK, f"SSH ports {mine[0]}-{mine[-1]} are clear of the host's own")


def listen(seen: Seen) -> Iterator[Check]:
    """Ports can be published only on an address that the host has."""
    if not seen.host.listen:
        return
    if seen.host.listen_error:
        text = f"network.listen {seen.host.listen}: {seen.host.listen_error}"
        yield Check("listen", Verdict.FAIL, text, "set network.listen in config.yaml to an address of `ip -4 address`")
    else:
        yield Check("listen", Verdict.OK, f"{seen.host.listen} is an address of this host")


def page(seen: Seen) -> Iterator[Check]:
    """Links lead to the page, and nobody on the way can listen in."""
    if seen.settings.value is None:
        return
    web = seen.settings.value.web
    odd = tuple(oddities(web))
    yield from (Check("page", Verdict.WARN, one.text, f"in config.yaml: {one.remedy}") for one in odd)
    if not odd:
        yield Check("page", Verdict.OK, f"links lead to {web.url}")


def state_space(seen: Seen) -> Iterator[Check]:
    """The inventory wants a local disk with room."""
    host = seen.host
    if host.state_kind in NETWORK_FILE_SYSTEMS:
        text = f"the inventory lies on {host.state_kind}: locks of a network file system lose writes"
        yield Check(
            "state-disk", Verdict.FAIL, text, "set state_dir in config.yaml to a local disk, and move the folder"
        )
    elif host.state_free is None or not host.state_size:
        yield Check("state-disk", Verdict.UNKNOWN, "the inventory's disk cannot be read", "df /var/lib/lxgpu")
    elif host.state_free < host.state_size * _LOW_SPACE:
        percent = 100 * host.state_free // host.state_size
        text = f"the inventory's disk has {percent} % left: when it is full nothing can be lent or taken"
        yield Check("state-disk", Verdict.WARN, text, "make room on the disk of state_dir")
    else:
        yield Check("state-disk", Verdict.OK, "the inventory lies on a local disk with room")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def _mapped(text: str, ranges: tuple[IdRange, ...]) -> bool:
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        return False
    return any(one.first <= int(first) and int(last or first) < one.first + one.count for one in ranges)


CHECKS: tuple[Look, ...] = (
    root,
    capability,
    packages,
    lxd,
    driver,
    nvml,
    nodes,
    device_rule,
    subids,
    idmaps,
    sysctls,
    ports,
    listen,
    page,
    state_space,
)
