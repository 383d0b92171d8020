"""The settings and the policy that lxgpu finds in a lab: the one place that knows their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxgpu.lab.engine import IMAGE, POOL
from lxgpu.lab.record import Lab, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """\
# The lab's own policy: everybody may have every card, and time runs in seconds.
version: 1
timezone: UTC
contact: the lab has no admin
admins: [root]
classes:
  urgent:   {{priority: 100, preemptible: false, who: ["*"], min_runtime: 0s, grace: 2s, term_wait: 2s}}
  normal:   {{priority: 50, who: ["*"], min_runtime: 0s, grace: 2s, term_wait: 2s}}
  scavenge: {{priority: 10, who: ["*"], min_runtime: 0s, grace: 2s, term_wait: 2s}}
defaults:
  {{class: normal, guaranteed: 0, limit: {gpus}, weight: 1, lease: 3d, retain: 30d,
   cpu: 1, memory: 1GiB, disk: 2GiB, processes: 2048, per_gpu: {{cpu: 1, memory: 1GiB}}}}
idle: {{window: 10s, below: 1%, coverage: 90%, when: needed, protect_ssh: 0s, protect_memory: 0s}}
preemption: {{on_preempt: [term], fence_timeout: 20s, stop_stuck: false}}
reservations: {{horizon: 30d, longest: 7d, max_gpus: {gpus}, no_show: 20s}}
hosts: {{memory_overcommit: 4, keep_free: {{memory: 256MiB, pool: 5%}}}}
"""


def config_text(lab: Lab) -> str:
    """The settings file."""
    return "\n".join(
        [
            "# Written by `lxgpu lab up`.",
            "hosts:",
            f"  - {{name: {lab.name}, engine: {lab.engine}, socket: {lab.socket}}}",
            f'network: {{bridge: {lab.bridge}, listen: "{lab.address}", ports: 22000-22999}}',
            f"pool: {POOL}",
            f"image: {IMAGE}",
            f"kernel_log: {lab.paths.kernel_log}",
            f"proc: {lab.paths.host / 'proc'}",
            "",
        ]
    )


def write_settings(lab: Lab, *, policy: Path | None) -> None:
    """Write config.yaml always, and policy.yaml from the file given, or the lab's own where there is none yet."""
    write_atomically(lab.paths.config, config_text(lab))
    if policy is not None:
        write_atomically(lab.paths.policy, policy.read_text(encoding="utf-8"))
    elif not lab.paths.policy.exists():
        write_atomically(lab.paths.policy, POLICY.format(gpus=len(lab.gpus)))
    lab.paths.kernel_log.touch()
