"""Profiles: the shipped ones, overlaid by those of the site, each file with the one it extends worked in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxgpu.config.kept import keep, read_kept, stamp
from lxgpu.config.shipped import shipped
from lxgpu.errors import LxgpuError
from lxgpu.model.names import check_name, name_fault
from lxgpu.model.profile import Profile, ProfileFile, Service
from lxgpu.model.rules import SharedData
from lxgpu.units import parse_percent

if TYPE_CHECKING:
    from lxgpu.config.yamlload import Document

__all__ = ["Profile", "ProfileFile", "list_profiles", "load_profile"]

_LONGEST_CHAIN = 10
_SUFFIX = ".yaml"


def list_profiles(own: Path | None, *, base: Path | None = None) -> dict[str, Path]:
    """The profiles there are: name → file, the site's own over the shipped.

    Args:
        own: the site's folder; it may be missing.
        base: the shipped folder; the one that came with lxgpu if left out.
    """
    found: dict[str, Path] = {}
    for folder in _folders(own, base)[::-1]:
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            if not name_fault(path.stem):
                found[path.stem] = path
    return dict(sorted(found.items()))


def load_profile(name: str, own: Path | None, *, base: Path | None = None, kept: Path | None = None) -> Profile:
    """Reads a profile and all that it extends.

    Args:
        name: which one.
        own: the site's folder; it may be missing.
        base: the shipped folder; the one that came with lxgpu if left out.
        kept: where the outcome is kept, to be read in place of the files while all of them are the same.

    Raises:
        LxgpuError: `not_found`: there is none of that name; `bad_name`; `bad_file`: it, or one that it extends, has
            mistakes, with all of them in `problems`.
    """
    check_name(name)
    folders = _folders(own, base)
    path = _find(name, folders)
    if path is None:
        known = ", ".join(list_profiles(own, base=base)) or "none"
        raise LxgpuError("not_found", f"there is no profile {name}", why=f"profiles: {known}")
    last = read_kept(kept) if kept else None
    if last is not None and _same(last["stamps"], folders):
        return _build(name, last["plain"], source=path)
    before = {one: [stamp(folder / f"{one}{_SUFFIX}") for folder in folders] for one in list_profiles(own, base=base)}
    chain = _chain(path, folders)
    merged: dict[str, Any] = {}
    for _, plain in reversed(chain):
        merged = _merge(merged, plain)
    if kept:
        # Only time is lost when it cannot be kept.
        keep(kept, plain=merged, stamps={one: before[one] for one, _ in chain})
    return _build(name, merged, source=path)


def _same(stamps: Mapping[str, list[list[int] | None]], folders: list[Path]) -> bool:
    """Whether every file that counted is as it was, and none that would come before it is there now."""
    return all(
        None not in known and known == [stamp(folder / f"{name}{_SUFFIX}") for folder in folders]
        for name, known in stamps.items()
    )


def _folders(own: Path | None, base: Path | None) -> list[Path]:
    return [folder for folder in (own, base or shipped("profiles")) if folder is not None]


def _find(name: str, folders: list[Path], *, beyond: Path | None = None) -> Path | None:
    """The file of that name; `beyond` is a file that extends its own name, so the next one counts."""
    paths = [folder / f"{name}{_SUFFIX}" for folder in folders]
    if beyond in paths:
        paths = paths[paths.index(beyond) + 1 :]
    return next((path for path in paths if path.is_file()), None)


def _chain(path: Path, folders: list[Path]) -> list[tuple[str, Mapping[str, Any]]]:
    """The names and plain values of a file and of all that it extends, the file first."""
    chain: list[tuple[str, Mapping[str, Any]]] = []
    seen = {path}
    while True:
        document, plain = _read(path)
        chain.append((path.stem, plain))
        parent = plain.get("extends")
        if parent is None:
            return chain
        following = _find(parent, folders, beyond=path)
        if following is None:
            raise _extends_error(document, f"there is no profile {parent}" + (" below" if parent == path.stem else ""))
        if following in seen or len(chain) > _LONGEST_CHAIN:
            raise _extends_error(document, f"{parent} extends {path.stem} in turn")
        seen.add(following)
        path = following


def _read(path: Path) -> tuple[Document, Mapping[str, Any]]:
    from lxgpu.config.check import check, problems  # noqa: PLC0415 -- YAML and pydantic, where a file is read
    from lxgpu.config.profileschema import ProfileEntry  # noqa: PLC0415
    from lxgpu.config.yamlload import load_yaml  # noqa: PLC0415

    document = load_yaml(path)
    wrong = problems(document, check(document, ProfileEntry))
    if wrong or not isinstance(document.value, dict):
        raise document.source.error(wrong)
    return document, document.value


def _extends_error(document: Document, text: str) -> LxgpuError:
    return document.source.error([document.problem(("extends",), text)])


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are merged name by name, lists are joined, anything else is replaced."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[name] = _merge(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            merged[name] = [*old, *(item for item in value if item not in old)]
        elif value is not None:
            merged[name] = value
    return merged


def _build(name: str, plain: Mapping[str, Any], *, source: Path) -> Profile:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- only for the shape of build_terms

    from lxgpu.config.build import build_terms  # noqa: PLC0415 -- where a profile is read

    files = tuple(
        ProfileFile(path=entry["path"], content=entry["content"], mode=int(entry.get("mode", "0644"), 8))
        for entry in plain.get("files") or []
    )
    nesting, ulimits = plain.get("nesting", False), dict(plain.get("ulimits") or {})
    config = dict(plain.get("config") or {}) | {f"limits.kernel.{key}": value for key, value in ulimits.items()}
    if nesting:
        config["security.nesting"] = "true"
    return Profile(
        name=name,
        description=plain["description"],
        terms=build_terms(plain.get("limits"), ZoneInfo("UTC")),
        config=config,
        devices=dict(plain.get("devices") or {}),
        environment=dict(plain.get("environment") or {}),
        ulimits=ulimits,
        packages=tuple(plain.get("packages") or ()),
        pip=tuple(plain.get("pip") or ()),
        services=tuple(_service(key, entry) for key, entry in (plain.get("services") or {}).items()),
        folders=tuple(_folder(key, entry) for key, entry in (plain.get("folders") or {}).items()),
        files=files,
        setup=(*(_writing(file) for file in files), *(plain.get("setup") or ())),
        nvidia=plain.get("nvidia", "auto"),
        nesting=nesting,
        shm_fraction=parse_percent(plain.get("shm", "50%")) / 100,
        source=source,
    )


def _folder(name: str, entry: Mapping[str, Any]) -> SharedData:
    at = entry.get("at", entry["path"])
    return SharedData(name=name, path=entry["path"], at=at, read_only=entry.get("mode", "ro") == "ro")


def _service(name: str, entry: Mapping[str, Any]) -> Service:
    ports, health, hint = tuple(entry.get("ports") or ()), entry.get("health", ""), entry.get("hint", "")
    return Service(name, title=entry["title"], command=entry["command"], ports=ports, health=health, hint=hint)


def _writing(file: ProfileFile) -> str:
    """The shell command that writes a file; its text goes as base64, so that no quoting can break."""
    from base64 import b64encode  # noqa: PLC0415 -- only where a profile has files
    from shlex import quote  # noqa: PLC0415

    path, text = quote(file.path), b64encode(file.content.encode()).decode()
    folder = quote(file.path.rpartition("/")[0] or "/")
    return f"mkdir -p {folder} && printf %s {text} | base64 -d >{path} && chmod {file.mode:04o} {path}"
