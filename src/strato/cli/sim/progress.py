"""One line on standard error that shows how far a simulation is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from strato.clock import SystemClock
from strato.units import human_duration

if TYPE_CHECKING:
    from strato.sim.experiments.tally import ProgressTally
    from strato.sim.run import Progress
    from strato.sim.utilisation.run import UtilisationProgress as ExperimentProgress

_REDRAW_SECONDS = 0.2
_BAR_SIGNS = 20


class ProgressLine:
    """One line on standard error that shows how far the simulation is."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._drawn_at = 0.0
        self._began_at = self._clock.monotonic()

    def show(self, progress: Progress) -> None:
        """Show a run under one policy."""
        text = (
            f"{human_duration(progress.virtual_seconds)} simulated, "
            f"{progress.finished} of {progress.total} jobs ended, {progress.running_pods} pods run"
        )
        self._draw(text, is_done=progress.finished == progress.total)

    def show_runs(self, tally: ProgressTally) -> None:
        """Show all runs of an experiment."""
        elapsed = self._clock.monotonic() - self._began_at
        self._draw(f"{tally.bar(_BAR_SIGNS)} {tally.line(elapsed)}", is_done=tally.is_done)

    def show_part(self, done: float, text: str) -> None:
        """Show how much of something is done, as a ratio; 1 ends the line."""
        self._draw(f"{done:4.0%} {text}", is_done=done >= 1)

    def show_experiment(self, progress: ExperimentProgress) -> None:
        """Show an experiment on utilisation."""
        hours, total = progress.virtual_seconds / 3600, progress.total_seconds / 3600
        is_done = total - hours < 1 / 12
        self._draw(f"{progress.variant}: {hours:.1f} of {total:.1f} hours simulated", is_done=is_done)

    def _draw(self, text: str, *, is_done: bool) -> None:
        now = self._clock.monotonic()
        if now - self._drawn_at < _REDRAW_SECONDS and not is_done:
            return
        self._drawn_at = now
        click.echo(f"\r\033[K{text}" + ("\n" if is_done else ""), err=True, nl=False)
