"""A site of fakes on which people reserve, work and give back, and time that passes with a tick each second."""

from __future__ import annotations

from dataclasses import replace

from fakes.site import make_site, newcomer

from lxgpu import resident, wiring
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import BookingRules, IdleRules, PreemptionRules, PriorityClass, Rules
from lxgpu.services.lending import attach
from lxgpu.services.statusfile import DaemonView
from lxgpu.services.tick import tick

GRACE, TERM_WAIT, FENCE = 2, 2, 5


def policy(*, limit: int = 8, admins: tuple[str, ...] = ("root",), **bookings) -> Policy:
    """Low yields to normal; time runs in seconds. `bookings`: rules of bookings that are not as here."""
    times = {"min_runtime_s": 0, "grace_s": GRACE, "term_wait_s": TERM_WAIT}
    return Policy(
        contact="gpu-admin@lab.example",
        admins=admins,
        classes={
            "normal": PriorityClass("normal", priority=50, **times),
            "low": PriorityClass("low", priority=10, **times),
        },
        defaults=replace(BASE_TERMS, limit=limit, lease_s=86400),
        rules=Rules(
            idle=IdleRules(window_s=10, warn_s=()),
            preemption=PreemptionRules(fence_timeout_s=FENCE),
            bookings=BookingRules(**{"no_show_s": 20, "give_up_after_s": 60, "bind_before_s": 15} | bookings),
        ),
    )


def two_at_work(folder, *, rules: Policy | None = None, **more):
    """Two cards, which alice holds at low class and works on; bob has none. `more` is the site's."""
    site = make_site(folder, gpus=2, policy=rules or policy(), **more)
    newcomer(site, "alice", gpus=0)
    newcomer(site, "bob")
    give(site, "alice", 2, class_name="low")
    for gpu in site.engine.cards:
        work(site, "alice", gpu)
    return site


def one_held(folder):
    """One card, which alice holds at low class; bob has none."""
    site = make_site(folder, gpus=1, policy=policy(no_show_s=3600))
    newcomer(site, "alice")
    newcomer(site, "bob")
    give(site, "alice", 1, class_name="low")
    return site


def give(site, name, count, *, class_name=""):
    """Lend cards as `lxgpu attach` does."""
    request = GpuRequest(instance=name, owner=name, more=count, class_name=class_name)
    attach(site, name, number=count, more=True, request=request, lease_s=None)


def work(site, name, gpu, **how):
    """A process of the container that computes on a card."""
    init = site.engine.instance(name).init_pid
    return site.probe.run(init, gpu.nodes, **how)


def wish(name="bob", gpus=2, seconds=3600, **more) -> ReserveRequest:
    """What `lxgpu reserve NAME --gpus N --for D` asks."""
    return ReserveRequest(instance=name, owner=name, gpus=gpus, duration_s=seconds, **more)


def go_on(site, seconds, *, step=1.0):
    """Let time pass, with a tick each second."""
    passed = 0.0
    while passed < seconds:
        site.clock.sleep(step)
        passed += step
        tick(site)


def held(site, name) -> list[str]:
    """The states of what an instance holds."""
    return [row.state.value for row in site.inventory.read().held_by(name)]


def events(site, kind) -> list:
    """The history of one kind, oldest first."""
    return [event for event in reversed(site.inventory.events()) if event.kind == kind]


def type_at(site, monkeypatch) -> None:
    """What is typed from here on goes to this site, where a daemon runs: it stands in the place of the real wiring."""
    seam = {
        "site": lambda say, **_: replace(site, say=say),
        "inventory": lambda **_: site.inventory,
        "engine": lambda: site.engine,
        "watcher": lambda: site.engine,
        "probe": lambda _known=None: site.probe,
        "policy": lambda _say: site.policy(),
        "settings": lambda: site.settings,
        "host_name": lambda: site.host,
    }
    for name, made in seam.items():
        monkeypatch.setattr(wiring, name, made)
    monkeypatch.setattr(resident, "status", lambda: DaemonView(running=True))
