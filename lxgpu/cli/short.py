"""`lxgpu ls` by the short way, where it is called plainly; see `lxgpu.quick`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxgpu.cli.screen import Screen

_FORMS = {
    (): "table",
    ("-o", "table"): "table",
    ("-o", "json"): "json",
    ("--json",): "json",
    ("-o", "name"): "name",
}
NOBODY = "no containers; lxgpu create NAME makes one"


def ls(words: list[str], screen: Screen) -> int | None:
    """Writes the list and returns the exit status; None: the words, or what is found, want the long way."""
    import sys  # noqa: PLC0415 -- as late as all the others

    form = _FORMS.get(tuple(words))
    if form is None or sys.stdout.isatty():
        return None
    from lxgpu import quick  # noqa: PLC0415
    from lxgpu.cli.instance_columns import INSTANCE_COLUMNS  # noqa: PLC0415
    from lxgpu.cli.render import Output  # noqa: PLC0415

    items = quick.containers()
    if items is None:
        return None
    Output(screen, form=form).items("instances", items, INSTANCE_COLUMNS, empty=NOBODY)
    return 0
