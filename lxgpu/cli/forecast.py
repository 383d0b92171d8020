"""`lxgpu report --forecast`: how good the forecast was on the lab's own past, and the free cards that it expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxgpu.cli.render import Column, Output
from lxgpu.figures import short_duration
from lxgpu.model.rules import ForecastUse

if TYPE_CHECKING:
    from datetime import datetime

    from lxgpu.model.quota import Policy

_SHOWN_H = (1, 2, 4, 8, 12)


def show_forecast(out: Output, policy: Policy, now: datetime) -> None:
    """Read the past and show the scores, whatever the policy makes of them."""
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli import looks  # noqa: PLC0415
    from lxgpu.services import foresight  # noqa: PLC0415

    rows = looks.records()
    asked: list[foresight.ScoreView] = []
    free: tuple[float, ...] = ()
    if rows.version:
        past = foresight.look_back(wiring.inventory(read_only=True), rows, policy, now=now)
        asked = [one for one in foresight.scores(past, policy, now) if one.asked]
        free = foresight.expected_free(past, policy, now)
    out.items("forecasts", asked, forecast_columns(), empty="nothing to forecast was seen yet")
    if free:
        ahead = ", ".join(f"{free[hour - 1]:.1f} in {hour}h" for hour in _SHOWN_H)
        out.screen.note(f"free cards to expect: {ahead}")
    if policy.rules.forecast.use is ForecastUse.NEVER:
        out.screen.note("the policy uses no forecast (forecast: {use: proven} does, where it is proven)")


def forecast_columns() -> tuple[Column, ...]:
    """A line for each question and time ahead; scores as they are, 0 is best."""
    return (
        Column("WHAT", "what"),
        Column("WITHIN", "within_s", text=short_duration),
        Column("ASKED", "asked"),
        Column("CAME", "came"),
        Column("FORECAST", "forecast", text=_score),
        Column("SAME", "same", text=_score),
        Column("USUAL", "usual", text=_score),
        Column("PROVEN", "proven"),
    )


def _score(value: float) -> str:
    return f"{value:.4f}"
