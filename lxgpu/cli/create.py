"""`lxgpu create`: one person's container, or a whole class from a CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lxgpu.cli import mig, params
from lxgpu.cli.rehearsal import rehearsed
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError
from lxgpu.model.onehost import everywhere

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lxgpu.model.request import CreateRequest
    from lxgpu.ports import Progress
    from lxgpu.services.many import Outcome
    from lxgpu.services.site import Site


@click.command()
@click.argument("name", type=params.NAME, required=False)
@click.option("--owner", type=params.PERSON, help="Whose it is, when the name is not theirs.")
@click.option("--gpus", "count", type=params.GPUS, help="How many cards, or 0.25: a part of one; none unless said.")
@mig.option
@click.option(
    "--gpu", "cards", multiple=True, metavar="GPU", help="This very card, by UUID or PCI address; repeatable."
)
@click.option("--model", default="*", metavar="GLOB", help="Only cards whose model matches, as 'A100*'.")
@click.option("--class", "class_name", default="", help="Priority class of the cards; the person's own unless said.")
@click.option(
    "--profile", default="", help="What kind of container (profiles/*.yaml); that of the settings unless said."
)
@click.option("--image", default="", help="Image alias or fingerprint; that of the settings unless said.")
@click.option(
    "--host",
    default="",
    help="Which host; this one unless said, `any`: where it fits best.",
)
@click.option(
    "--ssh-key",
    "key_files",
    multiple=True,
    metavar="FILE|-",
    type=click.Path(),
    help="Public keys; repeatable; - is stdin.",
)
@click.option("--cpu", type=click.IntRange(min=1), help="Cores; the policy's number unless said.")
@click.option("--memory", "memory_bytes", type=params.MEMORY, help="Memory, as 64GiB.")
@click.option("--disk", "disk_bytes", type=params.DISK, help="Disk, for the system and for the home each.")
@click.option("--processes", type=click.IntRange(min=64), help="Most processes at a time.")
@click.option("--for", "lease_s", type=params.DURATION, help="Lease of the cards, as 3d.")
@click.option("--if-not-exists", "lenient", is_flag=True, help="Do nothing when the container is there.")
@click.option("--from", "batch", type=params.FILE, help="A CSV file, one row a container.")
@click.option(
    "--expires",
    "expires_s",
    type=params.DURATION,
    help="Until when it is meant to be needed, as 120d; noted and shown.",
)
@params.change
@params.output
def create(
    out: Output,
    /,
    name: str | None,
    *,
    batch: str | None,
    host: str,
    dry_run: bool,
    yes: bool,
    **options: Any,  # noqa: ANN401 - click's options, named above
) -> None:
    """Make NAME's container: limits, cards, account, keys; done when an SSH login worked.

    Cards are a lease (see --for) and displace nobody: with none free the command ends with status 7 and leaves
    nothing.

    The CSV file of --from begins with a line that names its columns: `name`, and any of key (a public key, not a
    file), gpus, class, profile, image, model, owner, expires, cpu, memory, disk, processes.
    """
    del yes  # making something destroys nothing
    from lxgpu import hosts, wiring  # noqa: PLC0415
    from lxgpu.cli.wishes import one_wish, wishes_from  # noqa: PLC0415
    from lxgpu.model.names import check_person  # noqa: PLC0415

    if (name is None) == (batch is None):
        raise LxgpuError("usage", "give a NAME, or --from FILE", fix="lxgpu create --help")
    if name is not None:
        check_person(options["owner"] or name)
    wiring.warm()
    with out.screen.steps(total=1 if name else None) as steps:
        site = hosts.site_on(steps.of(name or "batch"), host)
        requests = [one_wish(site, name, options)] if name else wishes_from(site, str(batch), options)
        if host == "any" and hosts.several():
            site = _any_host(requests, steps.of(name or "batch")) or site
        job = _Job(out=out, site=site, lenient=bool(options["lenient"]))
        if dry_run:
            job.rehearse(requests)
            return
        outcomes = job.run(requests, steps)
    job.show(requests, outcomes)


def _any_host(requests: list[CreateRequest], say: Progress) -> Site | None:
    """The host that suits one container best; nobody chooses for a whole class."""
    from dataclasses import replace  # noqa: PLC0415

    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.services.placing import best_host  # noqa: PLC0415

    if len(requests) != 1:
        why = "any is for a single container"
        raise LxgpuError(
            "usage", "--host any does not go with --from", why=why, fix="--host HOST, as lxgpu host ls has it"
        )
    hasty = [replace(one, engine=place.engine) for one, place in zip(hosts.everyone(say), hosts.places(), strict=True)]
    found = best_host(hasty, requests[0])
    return hosts.site_on(say, found.host) if found else None


@dataclass(slots=True)
class _Job:
    out: Output
    site: Site
    lenient: bool

    def rehearse(self, requests: list[CreateRequest]) -> None:
        """The plan of each, as if those before it had been made; nothing is written."""
        from lxgpu.services.provision import plan_all  # noqa: PLC0415

        plans = plan_all(self.site, requests)
        names = (f"create {request.name}" for request in requests)
        rehearsed(self.out, self.site.policy(), *zip(names, plans, strict=True))

    def run(self, requests: list[CreateRequest], steps: Any) -> list[Outcome]:  # noqa: ANN401 -- cli.progress.Steps
        """Make them all, and hear of each as it ends."""
        from dataclasses import replace  # noqa: PLC0415

        from lxgpu.services.many import create_many  # noqa: PLC0415
        from lxgpu.services.recover import recover  # noqa: PLC0415

        recover(self.site)
        there = {row.name for row in everywhere(self.site.inventory.read()).instances} if self.lenient else set()
        wanted = [request for request in requests if request.name not in there]

        def ended(outcome: Outcome) -> None:
            if outcome.error is None:
                steps.done(outcome.request.name, "ready")
            else:
                steps.failed(outcome.request.name, outcome.error.brief)

        outcomes = create_many(
            lambda request: replace(self.site, say=steps.of(request.name)),
            wanted,
            workers=self.site.settings.workers,
            ended=ended,
        )
        return [outcome for outcome in outcomes if not self._was_there(outcome)]

    def _was_there(self, outcome: Outcome) -> bool:
        """Whether another command made it meanwhile, which --if-not-exists takes for done."""
        exists = outcome.error is not None and outcome.error.code == "exists"
        return (
            self.lenient
            and exists
            and everywhere(self.site.inventory.read()).instance(outcome.request.name) is not None
        )

    def show(self, requests: list[CreateRequest], outcomes: list[Outcome]) -> None:
        """What came of it: the containers that are there now on stdout, and an exit status that fits."""
        from lxgpu.cli.wishes import show_created  # noqa: PLC0415

        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        if len(outcomes) == 1 and errors:
            raise errors[0]
        failed = {outcome.request.name for outcome in outcomes if outcome.error is not None}
        show_created(self.out, self.site, [request.name for request in requests if request.name not in failed])
        if errors:
            raise LxgpuError(
                "partly_failed",
                f"{len(errors)} of {len(outcomes)} containers were not made",
                why=[f"{outcome.request.name}: {outcome.error.brief}" for outcome in outcomes if outcome.error],
                fix=_remedy(errors),
            )


_NO_CARDS = frozenset({"no_capacity", "not_free", "booked"})


def _remedy(errors: Sequence[LxgpuError]) -> str:
    """The next step for a batch of which rows failed: nothing is wrong with rows that only found no free card."""
    if all(error.code in _NO_CARDS for error in errors):
        return (
            "too few cards are free: leave the gpus column out and repeat with --if-not-exists; then lxgpu reserve NAME"
            " --gpus N --for D asks for the cards, or books them"
        )
    return "mend the rows and repeat with --if-not-exists"
