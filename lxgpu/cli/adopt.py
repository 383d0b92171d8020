"""`lxgpu adopt`: containers that were made by hand, copied, or deleted become lxgpu's."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output


@click.command()
@click.argument("name")
@click.option("--owner", type=params.PERSON, help="Whose it is, when the name is not theirs.")
@params.change
@params.output
def adopt(out: Output, name: str, *, owner: str | None, dry_run: bool, yes: bool) -> None:
    """Take over NAME, a container of LXD's default project that was made by hand, running or not.

    It keeps its limits, and its cards where nobody else has them; its person gets a port, keys and a home volume, into
    which the home inside is copied. A restart, where one is needed, wants --yes. Done when an SSH login worked, else
    it is left as it was. `adopt trash-NAME` brings a deleted container back under its old name.
    """
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import adopt as service  # noqa: PLC0415
    from lxgpu.services import untrash  # noqa: PLC0415
    from lxgpu.services.leaving import TRASH  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    wiring.warm()
    with out.screen.steps(total=1) as steps:
        site = wiring.site(steps.of(name))
        deleted = name.startswith(TRASH)
        plan = untrash.plan_untrash(site, name) if deleted else service.plan_adopt(site, name, owner=owner or "")
        if dry_run:
            out.plan(plan)
            return
        if any(step.do == "restart" for step in plan.steps):
            why = next(step.why for step in plan.steps if step.do == "restart")
            params.confirm(f"everything that runs in {name} is ended: {why}", yes=yes)
        recover(site)
        made = name
        if deleted:
            made = untrash.untrash(site, name)
        else:
            service.adopt(site, name, owner=owner or "")
        steps.done(name, f"is in use as {made}" if deleted else "adopted")
    show_created(out, site, [made])
