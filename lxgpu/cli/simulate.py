"""`lxgpu simulate`: what a rule or a policy would do to a lab, tried in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from lxgpu.cli import params
from lxgpu.cli.pagefile import PageFile
from lxgpu.cli.render import Output
from lxgpu.errors import LxgpuError


class Offered(params.Checked):
    """A name out of few; TAB offers them."""

    def __init__(self, name: str, parse: Callable[[str], str], names: Callable[[], Sequence[str]]) -> None:
        super().__init__(name, parse)
        self._names = names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 -- click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]


def _rule(text: str) -> str:
    from lxgpu.cli.simulateinput import known_rule  # noqa: PLC0415 -- when there is one to read

    return known_rule(text)


def _rules() -> Sequence[str]:
    from lxgpu.cli.simulateinput import rule_names  # noqa: PLC0415 -- for TAB

    return rule_names()


def _made_up() -> Sequence[str]:
    from lxgpu.simulate.synthetic import MODELS  # noqa: PLC0415 -- for TAB

    return tuple(MODELS)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--synthetic", type=Offered("name", str, _made_up), metavar="NAME", help="A made-up lab instead of a file."
)
@click.option("--history", type=params.DURATION, metavar="D", help="What this lab asked for in the last 30d, …")
@click.option("--servers", type=click.IntRange(min=1), metavar="N", help="How many servers the lab has.")
@click.option("--gpus-per-server", type=click.IntRange(min=1), metavar="N", help="How many cards each of them has.")
@click.option(
    "--rule", "rules", type=Offered("rule", _rule, _rules), multiple=True, help="Who gets cards; several side by side."
)
@click.option(
    "--policy",
    "policies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="A policy file for lxgpu; several side by side.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of what is made up.")
@click.option("--html", type=PageFile(), metavar="FILE", help="Write a page with plots as well; - is stdout.")
@params.output
def simulate(
    out: Output,
    *,
    file: Path | None,
    synthetic: str | None,
    history: int | None,
    servers: int | None,
    gpus_per_server: int | None,
    rules: tuple[str, ...],
    policies: tuple[Path, ...],
    seed: int,
    html: Path | None,
) -> None:
    """Try rules and policies in virtual time: on a trace, a made-up lab, or on what was asked for here.

    FILE is a trace (- is what comes in); its kind is known by its header. Each --rule is a run of its own, and lxgpu
    one for each --policy; without either, lxgpu runs alone. WAIT is from the submission to the first start, JCT to the
    end; P95 is the wait that 19 of 20 jobs do not exceed. USE is the share of all card time with work that was not
    lost. PREEMPTED counts how often somebody had to stop, LOST what that cost in GPU-hours. -o wide adds MISSED
    deadlines, idle cards that were RECLAIMED (in GPU-hours) and how often that was FALSE, jobs that NEVER started, were
    LEFT OUT since they are larger than the lab, and what the run took. docs/simulate.md says what is modelled and what
    is not.
    """
    try:
        from lxgpu.cli.simulateinput import Wanted  # noqa: PLC0415 -- not for --help
        from lxgpu.cli.simulating import simulate as play  # noqa: PLC0415

        wanted = Wanted(
            file=file,
            synthetic=synthetic,
            history_s=history,
            servers=servers,
            gpus_per_server=gpus_per_server,
            rules=rules,
            policies=policies,
            seed=seed,
            html=html,
        )
        play(out, wanted)
    except KeyboardInterrupt:
        why = "nothing real was touched, and nothing is left to undo"
        fix = "where it took too long, play fewer rules, or a shorter trace"
        raise LxgpuError("interrupted", "stopped by Ctrl-C", why=why, fix=fix) from None
