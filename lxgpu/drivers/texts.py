"""Templates filled in by Jinja2: the lab's own directory first, the shipped ones behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from jinja2 import Environment


class JinjaTexts:
    """Implements `ports.Texts`; a variable that a template names and nobody gives is an error, never empty text."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._environment: Environment | None = None

    def render(self, template: str, **values: object) -> str:
        """A template filled in."""
        import jinja2  # noqa: PLC0415 - 48 ms that only those pay who write into containers

        if self._environment is None:  # kept: it knows compiled templates, and looks whether their files changed
            self._environment = jinja2.Environment(
                loader=jinja2.FileSystemLoader([str(folder) for folder in self._folders]),
                undefined=jinja2.StrictUndefined,
                autoescape=_is_page,  # noqa: S701 - all but pages are shell scripts and plain text
                trim_blocks=True,
                lstrip_blocks=True,
                keep_trailing_newline=True,
            )
        try:
            return self._environment.get_template(template).render(**values)
        except jinja2.TemplateSyntaxError as error:
            where = f"{error.filename or template}:{error.lineno}"
            raise LxgpuError("bad_file", f"{where}: {error.message}", fix="mend the template") from error
        except jinja2.TemplateError as error:
            folders = ", ".join(str(folder) for folder in self._folders)
            raise LxgpuError(
                "bad_file", f"template {template}: {error}", why=f"looked for in {folders}", fix="mend the template"
            ) from error
        except Exception as error:
            # A template is a program of the lab's own, and may fail in any way that a program can.
            what = f"{type(error).__name__}: {error}"
            raise LxgpuError("bad_file", f"template {template}: {what}", fix="mend the template") from error


def _is_page(name: str | None) -> bool:
    return name is not None and name.endswith(".html.j2")
