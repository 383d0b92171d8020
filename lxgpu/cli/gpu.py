"""`lxgpu gpu`: look at one card, take it out of service, bring it back."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.render import Output

CARD = click.argument("card", metavar="GPU")


@click.group()
def gpu() -> None:
    """One card, by UUID, the beginning of one, or PCI address."""


@gpu.command()
@CARD
@params.output
def show(out: Output, card: str) -> None:
    """Everything about one card: who holds it, until when, how it is used, what happened to it."""
    from lxgpu.cli.listing import show_gpu  # noqa: PLC0415 -- not for --help

    show_gpu(out, card)


@gpu.command()
@CARD
@click.option("--reason", default="out of service", show_default=True, help="Why; who looks at the card reads it.")
@params.change
@params.output
def close(out: Output, card: str, *, reason: str, dry_run: bool, yes: bool) -> None:
    """Take a card out of service: nobody is given it any more.

    Who holds it keeps it until it is released. `lxgpu gpu open` brings it back.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.listing import show_gpu  # noqa: PLC0415
    from lxgpu.services import inservice  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(card), card)
        if dry_run:
            out.plan(inservice.plan_close(site, card, reason=reason))
            return
        recover(site)
        inservice.close(site, card, reason=reason)
        steps.done(card, "closed")
    show_gpu(out, card)


@gpu.command()
@CARD
@params.change
@params.output
def mode(out: Output, card: str, *, dry_run: bool, yes: bool) -> None:
    """Divide a card, or make it whole again, as the policy says: now, if nobody has any of it.

    The daemon does that by itself once the card is empty. `gpus:` and `sharing:` of the policy file say how cards are
    divided; --dry-run says who is in the way.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.listing import show_gpu  # noqa: PLC0415
    from lxgpu.services import dividing  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(card), card)
        if dry_run:
            out.plan(dividing.plan_division(site, card)[2])
            return
        recover(site)
        found = dividing.divide_now(site, card)
        steps.done(card, f"now {found.words}" if found.due else f"is {found.words} already")
    show_gpu(out, card)


@gpu.command(name="open")
@CARD
@params.change
@params.output
def open_(out: Output, card: str, *, dry_run: bool, yes: bool) -> None:
    """Bring a card back into service.

    One in quarantine is looked at again first, and stays there, with who holds it told, unless it is proven free.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.listing import show_gpu  # noqa: PLC0415
    from lxgpu.services import inservice  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(card), card)
        if dry_run:
            out.plan(inservice.plan_open(site, card))
            return
        recover(site)
        steps.done(card, "in service" if inservice.open_again(site, card) else "was in service")
    show_gpu(out, card)
