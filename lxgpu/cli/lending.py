"""`lxgpu attach` and `lxgpu release`: cards in and out of a container that lives on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lxgpu.cli import mig, params
from lxgpu.cli.rehearsal import rehearsed
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError
from lxgpu.figures import DAY, format_duration
from lxgpu.model.cardnames import n_held

if TYPE_CHECKING:
    from lxgpu.cli.params import GpuCount
    from lxgpu.model.request import GpuRequest
    from lxgpu.services.site import Site


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--gpus", "count", type=params.GPUS, help="How many cards in all, +N for so many more, 0.25 for a part.")
@mig.option
@click.option(
    "--gpu", "cards", multiple=True, metavar="GPU", help="This very card, by UUID or PCI address; repeatable."
)
@click.option("--model", default="*", metavar="GLOB", help="Only cards whose model matches, as 'A100*'.")
@click.option("--class", "class_name", default="", help="Priority class of the cards; the person's own unless said.")
@click.option("--for", "lease_s", type=params.DURATION, help="Lease of the cards, as 3d.")
@click.option(
    "--borrow", is_flag=True, help="Cards that others leave idle and lend on: what runs there may stop any time."
)
@params.change
@params.output
def attach(
    out: Output,
    name: str,
    *,
    count: GpuCount | None,
    sliced: GpuCount | None,
    cards: tuple[str, ...],
    model: str,
    class_name: str,
    lease_s: int | None,
    borrow: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Lend free cards to NAME, running or not; displaces nobody.

    With --borrow cards that somebody else holds and leaves idle, where the policy lets both do so. The holder keeps the
    card: what runs there is stopped when the holder works, and ended when that lasts.
    """
    del yes  # nobody loses anything by it
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.model.request import GpuRequest  # noqa: PLC0415
    from lxgpu.services import lending  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415
    from lxgpu.services.refusal import Asked, recording  # noqa: PLC0415

    count = mig.counted(count, sliced)
    if (count is None) == (not cards):
        why = "one of --gpus, --mig and --gpu, and not two"
        raise LxgpuError("usage", "say how many cards, or which", why=why, fix="--gpus 2, --gpus +1, or --gpu UUID")
    pattern = count.of(model) if count else model
    request = GpuRequest(instance=name, owner="", more=0, uuids=cards, model=pattern, class_name=class_name)
    number, more = (count.number, count.more) if count else (len(cards), True)
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if borrow:
            had = 0 if more else sum(row.instance == name for row in site.inventory.read().borrowings)
            wanted = replace(request, more=max(0, number - had))
            if wanted.more:
                _borrow(out, site, wanted, lease_s=lease_s, dry_run=dry_run)
            if dry_run:
                return
            steps.done(name, "borrowed; what runs on it may stop at any moment")
            show_created(out, site, [name])
            return
        if dry_run:
            _, plan, _ = lending.plan_attach(site, name, number=number, more=more, request=request)
            rehearsed(out, site.policy(), (f"attach {name}", plan))
            return
        recover(site)
        with recording(site, name, Asked(number, lease_s)):
            given = lending.attach(site, name, number=number, more=more, request=request, lease_s=lease_s)
        steps.done(name, "attached" if given else _enough(site, name, lease_s))
    show_created(out, site, [name])


@click.command()
@click.argument("name", type=params.INSTANCE)
@click.option("--gpus", "count", type=click.IntRange(min=1), help="How many cards to give back.")
@click.option(
    "--gpu", "cards", multiple=True, metavar="GPU", help="This very card, by UUID or PCI address; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="All cards.")
@params.change
@params.output
def release(
    out: Output, name: str, *, count: int | None, cards: tuple[str, ...], everything: bool, dry_run: bool, yes: bool
) -> None:
    """Give cards of NAME back; the container lives on.

    What still holds a card is asked to end, then ended; the card is free once nothing holds it. A card in use is
    given back only when it is named, or with --yes. With --all, or by name, borrowed cards go back too.
    """
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli.wishes import show_created  # noqa: PLC0415
    from lxgpu.services import borrowed, lending  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415

    if sum((count is not None, bool(cards), everything)) != 1:
        why = "one of --gpus, --gpu and --all, and no more"
        raise LxgpuError("usage", "say how many cards, which, or all", why=why, fix="--gpus 1, --gpu UUID, or --all")
    with out.screen.steps(total=1) as steps:
        site = hosts.site(steps.of(name), name)
        if dry_run:
            _, plan = lending.plan_release(site, name, count=count, uuids=cards, busy=yes)
            rehearsed(out, site.policy(), (f"release {name}", plan))
            return
        recover(site)
        back = borrowed.give_back(site, name, cards) if count is None else ()
        own = tuple(card for card in cards if card not in back)
        taken = bool(back)
        if own or not cards:
            taken |= lending.release(site, name, count=count, uuids=own, busy=yes)
        steps.done(name, "given back" if taken else "it holds no GPU, so nothing was given back")
    show_created(out, site, [name])


def _borrow(out: Output, site: Site, request: GpuRequest, *, lease_s: int | None, dry_run: bool) -> None:
    """Cards that others leave idle, open when this returns."""
    from lxgpu import resident  # noqa: PLC0415
    from lxgpu.services import borrowing  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415
    from lxgpu.services.refusal import Asked, recording  # noqa: PLC0415

    if lease_s is not None:
        why = "what is borrowed is had until its holder comes back"
        raise LxgpuError("usage", "--for does not go with --borrow", why=why, fix="leave --for out")
    if dry_run:
        _, plan, _ = borrowing.plan_borrow(site, request)
        rehearsed(out, site.policy(), (f"borrow for {request.instance}", plan))
        return
    if not resident.status().running:
        why = "it is the daemon that stops who has borrowed when the holder works"
        fix = "start it: systemctl start lxgpu, or lxgpu daemon run"
        raise LxgpuError("unavailable", "idle cards are lent on only while the daemon runs", why=why, fix=fix)
    recover(site)
    with recording(site, request.instance, Asked(request.more)):
        rows = borrowing.borrow(site, request)
        resident.poke()
        borrowing.opened(site, rows)


def _enough(site: Site, name: str, lease_s: int | None) -> str:
    """What is said where nothing was attached, since --gpus is a total."""
    held = n_held(row.slot.gpu for row in site.inventory.read().held_by(name))
    longer = f"lxgpu extend {name} --for {format_duration(lease_s or DAY)}"
    return f"it holds {held} already; --gpus +1 would add one; {longer} makes the lease longer"
