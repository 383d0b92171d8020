"""What a profile runs inside: that each of its services answers before its person is told that all is ready."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.profile import Service
from lxgpu.services.recipes import Work

START_S = 120
"""How long a service may take until it answers; a service that takes longer goes on starting by itself."""
_MARGIN_S = 30.0
_START = """
systemctl cat "$1.service" >/dev/null 2>&1 || exit 0
timeout "$2" systemctl start "$1.service" && exit
journalctl -q -o cat -n 4 -u "$1.service" 2>/dev/null
exit 1
"""
"""Run as root inside: `$1` is the unit, which counts as started when it answers; `$2` the seconds.

A system that was made before its profile had the service, or by somebody else, has no such unit: it is not asked.
"""


def answering(work: Work) -> None:
    """The services of the container's profile answer.

    One that does not, in a home that was made just now, is the profile's fault: nothing is kept. In a home that was
    there before, it may well be something in that home, which its person can mend only inside: so it is said.

    Raises:
        LxgpuError: `service_failed`.
    """
    row = work.instance()
    for service in work.site.profile(row.profile).services:
        error = _start(work, service, profile=row.profile)
        if error is None:
            continue
        if work.flag("volume_new"):
            raise error
        work.site.say(f"{error.brief} ({error.why[-1]}); {error.fix}")


def _start(work: Work, service: Service, *, profile: str) -> LxgpuError | None:
    words = ["sh", "-c", _START, "start", service.name, str(START_S)]
    ran = work.site.engine.run(work.name, words, environment={}, timeout_s=START_S + _MARGIN_S)
    if ran.status == 0:
        return None
    fix = f"lxgpu exec {work.name} -- systemctl status {service.name}"
    if work.flag("volume_new"):
        fix = f"look at profiles/{profile}.yaml; lxgpu image build --profile {profile} makes what it starts from"
    why = tuple(ran.output.strip().splitlines()[-4:]) or f"it did not answer within {START_S} s"
    return LxgpuError("service_failed", f"{service.title} does not answer in {work.name}", why=why, fix=fix)
