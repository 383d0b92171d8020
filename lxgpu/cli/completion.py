"""`lxgpu completion`: the script that makes a shell complete our commands, and the names it offers."""

from __future__ import annotations

import click

from lxgpu.cli import params
from lxgpu.cli.screen import Screen

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@params.pass_screen
def completion(screen: Screen, shell: str) -> None:
    r"""Print the completion script for SHELL.

    \b
    bash: eval "$(lxgpu completion bash)" in ~/.bashrc
    zsh:  eval "$(lxgpu completion zsh)" in ~/.zshrc
    fish: lxgpu completion fish > ~/.config/fish/completions/lxgpu.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 -- here only

    kind = get_completion_class(shell)
    root = click.get_current_context().find_root()
    if kind is None:
        raise AssertionError(shell)
    script = kind(root.command, {}, "lxgpu", "_LXGPU_COMPLETE")
    screen.data(script.source_template % script.source_vars())


def instance_names() -> list[str]:
    """The containers in the inventory, for TAB; none where there is no inventory that we may read."""
    from lxgpu import wiring  # noqa: PLC0415 -- when somebody presses TAB on a name
    from lxgpu.errors import LxgpuError  # noqa: PLC0415

    try:
        records = wiring.inventory(read_only=True).read()
    except LxgpuError:
        return []  # a shell at its prompt is no place for an error
    return sorted(instance.name for instance in records.instances)
