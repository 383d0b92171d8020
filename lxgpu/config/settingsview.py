"""The settings as rows, for `lxgpu config show`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lxgpu.config.readers import OFF, TABLE
from lxgpu.config.settings import CONFIG_VARIABLE, Settings
from lxgpu.units import format_duration


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its value as it is written in config.yaml, where it came from, and its variable."""

    key: str
    value: str
    origin: str
    variable: str | None
    help: str


def settings_rows(settings: Settings) -> list[SettingRow]:
    """All settings in the order of the table, the structured ones last."""
    first = SettingRow("config", str(settings.config), settings.origins["config"], CONFIG_VARIABLE, "the settings file")
    scalars = [
        SettingRow(item.key, _value(settings, item.key), settings.origins[item.key], item.variable, item.help)
        for item in TABLE
    ]
    structured = [
        SettingRow(key, _listed(values), settings.origins[key], None, text)
        for key, values, text in (
            ("hosts", [asdict(host) for host in settings.hosts], "the engines"),
            ("images", [dict(settings.images)] if settings.images else [], "where images come from"),
            ("channels", [asdict(channel) for channel in settings.channels], "how people are told"),
        )
    ]
    return [first, *scalars, *structured]


def _value(settings: Settings, key: str) -> str:
    section, _, name = key.rpartition(".")
    holder: object = getattr(settings, section) if section else settings
    value: Any = getattr(holder, f"{name}_s", None) if section == "backup" else None
    if value is not None:
        return format_duration(value)
    value = getattr(holder, name)
    if isinstance(value, range):
        return f"{value.start}-{value.stop - 1}"
    if isinstance(value, tuple):
        from shlex import join  # noqa: PLC0415 -- a command, where there is one

        return join(value)
    return OFF if value is None else str(value)


def _listed(entries: list[dict[str, str]]) -> str:
    shown = [", ".join(f"{name}: {value}" for name, value in entry.items() if value) for entry in entries]
    return "; ".join(f"{{{text}}}" for text in shown)
