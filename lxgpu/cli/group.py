"""The click group behind `lxgpu`: commands are found in the table and loaded when called."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from lxgpu import __version__
from lxgpu.cli import commands, params
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError


class Lazy(click.Group):
    """A group whose commands stand in `commands.SECTIONS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """The names, without loading anything."""
        return commands.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        place = commands.place_of(cmd_name)
        if place is None:
            return None
        module, attribute = place
        command: click.Command = getattr(importlib.import_module(module), attribute)
        add_everywhere(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with our guess of what was meant."""
        name = args[0]
        if not name.startswith("-") and commands.place_of(name) is None and not ctx.resilient_parsing:
            raise LxgpuError("usage", f"there is no command {name!r}", fix=_guess(name))
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The page of the table."""
        formatter.write(commands.help_page())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without loading any command."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text)
            for _, entries in commands.SECTIONS
            for name, _, text in entries
            if name.startswith(incomplete)
        ]


def _guess(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    habit = commands.HABITS.get(name)
    near = [habit] if habit else get_close_matches(name, commands.names(), n=2)
    return f"did you mean {' or '.join(f'`lxgpu {word}`' for word in near)}?" if near else "lxgpu --help lists them"


def _screen(ctx: click.Context) -> Screen:
    screen: Screen = ctx.find_root().obj
    return screen


def _verbose(ctx: click.Context, param: click.Parameter, value: int) -> None:  # noqa: ARG001 -- click's signature
    if value:
        import logging  # noqa: PLC0415 -- on request only

        _screen(ctx).verbosity = value
        logging.basicConfig(
            level=logging.DEBUG if value > 1 else logging.INFO, format="%(levelname)s %(name)s: %(message)s"
        )


def _quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 -- click's signature
    _screen(ctx).quiet |= value


def _debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 -- click's signature
    _screen(ctx).debug |= value


def _color(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 -- click's signature
    if value:
        _screen(ctx).color = value


def _setting(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 -- click's signature
    if value is not None:
        from lxgpu.config.settings import FLAGS  # noqa: PLC0415 -- on request only

        FLAGS[param.opts[0].removeprefix("--").replace("-", "_")] = value


def _set(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:  # noqa: ARG001 -- click's signature
    from lxgpu.config.settings import FLAGS  # noqa: PLC0415 -- on request only

    for word in value:
        key, equals, text = word.partition("=")
        if not equals:
            raise LxgpuError("usage", f"--set {word}: the value is missing", fix="say --set KEY=VALUE")
        FLAGS[key] = text


def _setting_options(*, hidden: bool) -> list[click.Option]:
    """The options that say where the settings and the other files are."""
    places = ("--config", "--policy", "--profiles", "--templates", "--state-dir", "--run-dir")
    return [
        *(
            click.Option([name], metavar="PATH", expose_value=False, callback=_setting, hidden=hidden)
            for name in places
        ),
        click.Option(["--set"], metavar="KEY=VALUE", multiple=True, expose_value=False, callback=_set, hidden=hidden),
    ]


def _global_options(*, hidden: bool) -> list[click.Option]:
    """The options that count before and after the command; after it they are not listed again."""
    return [
        click.Option(["-v", "--verbose"], count=True, expose_value=False, callback=_verbose, hidden=hidden),
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_quiet, hidden=hidden),
        click.Option(["--debug"], is_flag=True, expose_value=False, callback=_debug, hidden=hidden),
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            callback=_color,
            hidden=hidden,
        ),
        *_setting_options(hidden=hidden),
    ]


def add_everywhere(command: click.Command) -> None:
    """Let a command and those below it take the global options too, where their names are not taken.

    Its own texts and numbers get their bounds here, so that none is forgotten.
    """
    for param in command.params:
        if param.expose_value:  # the global ones are paths and settings
            params.bound(param)
    taken = {name for param in command.params for name in param.opts}
    for option in _global_options(hidden=True):
        option.opts = [name for name in option.opts if name not in taken]
        if option.opts and not taken.issuperset(option.opts):
            command.params.append(option)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_everywhere(below)


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 -- click's signature
    if value:
        _screen(ctx).data(f"lxgpu {__version__}")
        ctx.exit()


ROOT = Lazy(
    "lxgpu",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        *_global_options(hidden=False),
        click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version),
    ],
)


def invoke(words: Sequence[str], screen: Screen, *, root: click.Command = ROOT) -> int:
    """Runs a command line; errors go up as they are, click's included."""
    try:
        status = root.main(list(words), prog_name="lxgpu", standalone_mode=False, obj=screen)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return status if isinstance(status, int) else 0


def usage_error(error: BaseException) -> LxgpuError | None:
    """Returns click's error as ours; None if it is none of click's."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return _no_command(error.ctx)
    if not isinstance(error, click.ClickException):
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "lxgpu"
    if isinstance(error, click.NoSuchOption):
        return LxgpuError("usage", f"there is no option {error.option_name}{_near_option(error)}", fix=f"{path} --help")
    return LxgpuError("usage", error.format_message().rstrip("."), fix=f"{path} --help")


def _near_option(error: click.NoSuchOption) -> str:
    """The options that are nearly the same; empty where none is."""
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    near = get_close_matches(
        error.option_name.lstrip("-"), [one.lstrip("-") for one in error.possibilities or ()], cutoff=0.75
    )
    return f"; did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""


def _no_command(ctx: click.Context) -> LxgpuError:
    below = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    why = f"one of: {', '.join(below)}" if below else ""
    return LxgpuError("usage", f"`{ctx.command_path}` needs a command", why=why, fix=f"{ctx.command_path} --help")
