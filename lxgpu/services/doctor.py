"""`lxgpu doctor`: look at everything that must be right, say what is not, and mend what may be mended.

Nothing here needs LXD, root, a configuration or an inventory to be there: what is missing is a finding, or makes
others unknown. Looking changes nothing but a cgroup that is made for a trial and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never

from lxgpu.config.inforce import InForce
from lxgpu.config.settings import Settings
from lxgpu.errors import LxgpuError
from lxgpu.ports import Engine, HostProbe, Server
from lxgpu.ports.facts import HostSetup, Places
from lxgpu.services import checks_host, checks_site
from lxgpu.services.checkup import Answer, Check, Look, Seen, Verdict, ask
from lxgpu.services.keyring import MADE
from lxgpu.services.passbook import FILE, broken
from lxgpu.services.recover import recover
from lxgpu.services.site import Site
from lxgpu.services.verify import verify

CHECKS: tuple[Look, ...] = (*checks_host.CHECKS, *checks_site.CHECKS)
BAD = frozenset({Verdict.WARN, Verdict.FAIL})
_STATE = Path("/var/lib/lxgpu")


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a check-up asks; each may fail for itself.

    `probe` is given the cards that LXD shows, UUID by PCI address, so that a lost one has its name.
    `site(read_only)` puts the parts together, over an empty inventory while there is none and nothing is written;
    `database` looks at the inventory's file: False when there is none.
    """

    setup: HostSetup
    settings: Callable[[], Settings]
    engine: Callable[[], Engine]
    probe: Callable[[Mapping[str, str]], HostProbe]
    site: Callable[[bool], Site]
    policy: Callable[[], InForce]
    database: Callable[[], bool]


def checks(ground: Ground) -> tuple[Check, ...]:
    """Everything, in a fixed order."""
    seen = look(ground)
    return tuple(found for check in CHECKS for found in check(seen))


def look(ground: Ground) -> Seen:
    """One look at host, LXD, NVML, inventory and policy."""
    settings = ask(ground.settings)
    chosen = settings.value
    host = ground.setup.facts(places(chosen), tuple(checks_host.SYSCTLS))
    if chosen is None:
        return Seen(host=host, settings=settings)
    seen = Seen(
        host=host,
        settings=settings,
        database=ask(ground.database),
        policy=ask(ground.policy),
        passes=ask(lambda: broken(chosen.state_dir)),
    )
    seen = _with_engine(ground, seen, chosen)
    known = {gpu.pci: gpu.uuid for gpu in seen.gpus.value or ()}
    return replace(seen, readings=ground.probe(known).readings())


def places(settings: Settings | None) -> Places:
    """What of the host is looked at under these settings; None: under the usual ones, as far as that goes."""
    if settings is None:
        return Places(socket="", listen="", state_dir=_STATE, secret=(), public=(), keys_made=_STATE / MADE)
    state = settings.state_dir
    named = tuple(state / name for name in ("inventory.db", "inventory.db-wal", "policy.json", MADE, FILE))
    made = tuple(sorted(path for path in (state / MADE).glob("*") if path.suffix != ".pub"))
    public = (settings.config, settings.policy, settings.keys, settings.profiles, settings.templates)
    return Places(
        socket=settings.hosts[0].socket,
        listen=settings.network.listen,
        state_dir=state,
        secret=(state, *named, *made),
        public=public,
        keys_made=state / MADE,
    )


OF_THE_HOST = frozenset({"sysctl", "nodes"})
"""Kinds of repairs that change the machine itself, also for a lab that only stands on it."""


def repairs(found: Iterable[Check], *, host: bool = True) -> tuple[Check, ...]:
    """The findings that `fix` would mend, those of drift as one: they are mended together.

    Without `host`, only what is lxgpu's own: no kernel parameter and no node of the machine.
    """
    chosen: dict[tuple[str, str], Check] = {}
    for one in found:
        if one.verdict in BAD and one.repair is not None and (host or one.repair.kind not in OF_THE_HOST):
            key = (one.repair.kind, "" if one.repair.kind == "drift" else one.repair.subject)
            chosen.setdefault(key, one)
    return tuple(chosen.values())


def fix(ground: Ground, found: Iterable[Check], *, host: bool = True) -> tuple[str, ...]:
    """Mend what may be mended (see `repairs`); gives what could not be, each in one line."""
    failed = []
    for one in repairs(found, host=host):
        try:
            _mend(ground, one)
        except LxgpuError as error:
            failed.append("; ".join((f"{one.id}: {error.brief}", *error.why)))
    return tuple(failed)


def compare(before: Iterable[Check], after: Iterable[Check]) -> tuple[Check, ...]:
    """The findings after mending; what was bad and is well now says so, and what is gone is named once more."""
    bad = {one.id: one for one in before if one.verdict in BAD and one.repair is not None}
    left = tuple(after)
    gone = [one for name, one in bad.items() if name not in {now.id for now in left}]
    ended = tuple(Check(one.id, Verdict.OK, f"mended: {one.text}", fixed=True) for one in gone)
    return (*(replace(now, fixed=True) if now.verdict is Verdict.OK and now.id in bad else now for now in left), *ended)


def _mend(ground: Ground, one: Check) -> None:
    repair = one.repair
    if repair is None:
        return
    if repair.kind == "sysctl" and repair.value is not None:
        ground.setup.set_sysctl(repair.subject, repair.value)
    elif repair.kind == "mode" and repair.value is not None:
        ground.setup.set_mode(repair.subject, repair.value)
    elif repair.kind == "nodes":
        ground.setup.make_nodes()
    elif repair.kind == "drift":
        recover(ground.site(False))  # noqa: FBT003 -- read_only, of a callable type that knows no keywords


def _with_engine(ground: Ground, seen: Seen, settings: Settings) -> Seen:
    engine = ground.engine()
    server = ask(engine.server)
    if server.value is None:
        return _without_engine(seen, server)
    return replace(
        seen,
        server=server,
        pool=ask(lambda: engine.pool(settings.pool)),
        network=ask(lambda: engine.network(settings.network.bridge)),
        images=ask(engine.images),
        sightings=ask(lambda: engine.instances(with_state=False)),
        profiles=ask(engine.profile_devices),
        gpus=ask(engine.gpus),
        findings=Answer() if seen.database.error else ask(lambda: verify(ground.site(True))),  # noqa: FBT003 -- as above
    )


def _without_engine(seen: Seen, server: Answer[Server]) -> Seen:
    """LXD does not answer: not asked again for each part, which could take its deadline each time."""
    silent: Answer[Never] = Answer(error=server.error)
    return replace(
        seen,
        server=server,
        pool=silent,
        network=silent,
        images=silent,
        sightings=silent,
        profiles=silent,
        gpus=silent,
        findings=silent,
    )
