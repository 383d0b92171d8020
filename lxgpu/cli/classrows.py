"""A class file against this host: what its rows name has to be there, or nothing is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError, Problem
from lxgpu.services.site import Site

if TYPE_CHECKING:
    from lxgpu.config.classfile import ClassRow
    from lxgpu.config.source import Source


def check_rows(site: Site, source: Source, rows: Sequence[ClassRow]) -> None:
    """Error `bad_file` with every row whose class, profile, image or model is not there."""
    problems = [*_missing(site, source, rows)]
    if problems:
        raise source.error(problems)


def _missing(site: Site, source: Source, rows: Sequence[ClassRow]) -> Iterator[Problem]:
    from lxgpu.config.source import Mark  # noqa: PLC0415 -- with the file's reader

    columns: dict[str, tuple[Callable[[ClassRow], str], Callable[[Site, str], str]]] = {
        "class": (lambda row: row.class_name, _class),
        "profile": (lambda row: row.profile, _profile),
        "image": (lambda row: row.image, _image),
        "model": (lambda row: row.model, _model),
    }
    for column, (value, fault_of) in columns.items():
        faults = {text: fault_of(site, text) for text in {value(row) for row in rows} if text}
        for row in rows:
            if fault := faults.get(value(row)):
                yield source.problem(Mark(row.line, 1), fault, path=column)


def _class(site: Site, name: str) -> str:
    classes = site.policy().classes
    return "" if name in classes else f"there is no class {name!r}; the policy has {', '.join(sorted(classes))}"


def _profile(site: Site, name: str) -> str:
    return _told(lambda: site.profile(name))


def _image(site: Site, name: str) -> str:
    from lxgpu.services.images import find_image  # noqa: PLC0415

    return _told(lambda: find_image(site, name))


def _model(site: Site, pattern: str) -> str:
    from lxgpu.policy.placement import fits  # noqa: PLC0415

    models = {gpu.model for gpu in site.engine.gpus()}
    if any(fits(model, pattern) for model in models):
        return ""
    return f"no card's model matches {pattern!r}; there are {', '.join(sorted(models)) or 'none'}"


def _told(find: Callable[[], object]) -> str:
    """What is wrong when a thing is not there; other errors are no mistake of the file."""
    try:
        find()
    except LxgpuError as error:
        if error.code not in {"not_found", "no_image"}:
            raise
        return "; ".join([error.brief, *error.why])
    return ""
