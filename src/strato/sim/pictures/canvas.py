"""`Picture`: draws a matplotlib figure as SVG for a page or a file, or as PNG. Equal data give equal bytes.

Text is written literally: users' names are never read as markup or formulas, and control characters are replaced.
Colours of text, axes and grid are drawn as placeholders and replaced at the end, so that a page can set them by theme.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strato.errors import UsageError
from strato.sim.report import short_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE: Final = ("#4c78a8", "#d9822b", "#3f9b6c", "#b5508f", "#7a68b3", "#c2453f", "#9a8a3d", "#3a9aa8")
INK, FAINT, GRID = "#010203", "#040506", "#070809"
"""Placeholders of the colours that depend on the page's theme."""
_ON_PAPER: Final = {INK: "#1f2328", FAINT: "#59636e", GRID: "#d1d9e0"}
_ON_PAGE: Final = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)"}
_THEME: Final = (
    ":root { --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; } "
    "@media (prefers-color-scheme: dark) { "
    ":root { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #3d444d; } }"
)
_LONGEST_NAME: Final = 32
_ROUND_SECONDS: Final = (
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 10800.0,
    21600.0, 43200.0, 86400.0, 172800.0, 432000.0, 864000.0,
)  # fmt: skip
_FAR_SECONDS: Final = (10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2592000.0)
"""Ticks of a symmetric logarithmic scale, in seconds."""
_ZERO_PARTS: Final = re.compile(r"(?<=h)0m0s$|(?<=m)0s$")
_IDS: Final = re.compile(r'(\bid="|url\(#|href="#)')
_STYLE: Final[Mapping[str, Any]] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "figure.dpi": 100,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is drawn when it is written."""

    name: str
    """Name of its file, and of its anchor in the page."""
    title: str
    text: str
    """What it shows, in a sentence or two."""
    draw: Callable[[Figure], None]
    height: float = 3.2
    """Inches; the width is 9."""

    def svg(self) -> str:
        """Return an SVG file on white."""
        return _coloured(self._drawn("white"), _ON_PAPER)

    def inline(self) -> str:
        """Return an SVG element for a page that sets the colours ``--ink``, ``--faint`` and ``--grid``."""
        drawn = self._drawn("none")
        return _coloured(drawn[drawn.index("<svg") :], _ON_PAGE)

    def themed(self) -> str:
        """Return an SVG file that is light or dark as its viewer's theme."""
        drawn = self.inline()
        head = drawn.index(">") + 1
        paper = "<rect width='100%' height='100%' fill='var(--paper)'/>"
        return f"{drawn[:head]}\n<style>{_THEME}</style>{paper}{drawn[head:]}"

    def png(self) -> bytes:
        """Return a PNG file on white."""
        with _figure(self, _ON_PAPER) as figure, io.BytesIO() as file:
            figure.savefig(file, format="png", dpi=144, facecolor="white", metadata={"Software": None})
            return file.getvalue()

    def _drawn(self, paper: str) -> str:
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with _figure(self, {}) as figure, io.StringIO() as file:
            figure.savefig(file, format="svg", facecolor=paper, metadata=nothing)
            text = file.getvalue()
        return _IDS.sub(rf"\g<1>{self.name}-", text)


def check_matplotlib() -> None:
    """Check that pictures can be drawn.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib as _  # noqa: F401 -- only whether it is there
    except ImportError as error:
        raise UsageError("pictures need matplotlib: pip install 'strato[report]'") from error


@contextmanager
def _figure(picture: Picture, colours: Mapping[str, str]) -> Iterator[Figure]:
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about characters that the font lacks; the viewer's font has them
        matplotlib.rcdefaults()
        style: dict[Any, Any] = {
            key: colours.get(value, value) if isinstance(value, str) else value for key, value in _STYLE.items()
        }
        matplotlib.rcParams.update({**style, "svg.hashsalt": picture.name})
        figure = Figure(figsize=(9, picture.height), layout="constrained")
        picture.draw(figure)
        yield figure


def _coloured(text: str, colours: Mapping[str, str]) -> str:
    for placeholder, colour in colours.items():
        text = text.replace(placeholder, colour)
    return text


def shown(name: str) -> str:
    """Return a user's name for a picture: shortened, without control characters."""
    clean = "".join(sign if sign.isprintable() else "�" for sign in name)
    return clean if len(clean) <= _LONGEST_NAME else f"{clean[: _LONGEST_NAME - 1]}…"


def colour(number: int) -> str:
    """Return the colour of the number-th group; colours repeat."""
    return PALETTE[number % len(PALETTE)]


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which to label an axis of that length: its seconds and its name."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * size:
            return size, name
    return 1.0, "seconds"


def durations_along(axes: Axes, axis: str) -> None:
    """Label an axis of seconds with round durations."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator

    one = axes.xaxis if axis == "x" else axes.yaxis
    if one.get_scale() == "linear":
        low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
        one.set_major_locator(MultipleLocator(round_step((high - low) / 5)))
    else:
        one.set_major_locator(FixedLocator([*(-seconds for seconds in _FAR_SECONDS), 0.0, *_FAR_SECONDS]))
        one.set_minor_locator(NullLocator())
    one.set_major_formatter(FuncFormatter(lambda value, _: _ZERO_PARTS.sub("", short_duration(value))))


def round_step(seconds: float) -> float:
    """Return the shortest round duration that is at least this long."""
    for step in _ROUND_SECONDS:
        if step >= seconds:
            return step
    return math.ceil(seconds / 864_000) * 864_000.0


def percents_along(axes: Axes) -> None:
    """Label the vertical axis of a ratio with percents, from 0."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylim(bottom=0)


def nothing(figure: Figure, text: str) -> None:
    """Write into an empty picture why there is nothing to draw."""
    figure.text(0.5, 0.5, text, ha="center", va="center", color=FAINT)
