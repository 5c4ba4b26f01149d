"""Style of every picture: fonts, colours, headings, axes with SI-scaled ticks, and how it is saved."""

import functools
import os
import pathlib
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hwspaces.files.extras import installing
from hwspaces.files.output import PICTURE, replacing
from jaxroof.op import BOUNDS

MARKS = {"png": {"Software": "jaxroof"}, "svg": {"Date": None, "Creator": "jaxroof"}}
"""Format of a picture -> what its file says of its origin; nothing that differs from one run to the next."""

DOTS_PER_INCH = 150

BOUND_COLOURS = dict(
    zip(
        BOUNDS,
        ("#0072b2", "#56b4e9", "#cc79a7", "#d55e00", "#f0e442", "#e69f00", "#009e73", "#8c8c8c", "#8a4f00", "#7a0019"),
        strict=True,
    )
)
"""One colour for all that binds, in all pictures. Source: the palette of Okabe & Ito, 2008, for all eyes; those of
power and of memories beside device memory are ours."""

SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#111111", "#999933")
"""Colours of lines without a meaning of their own."""

INFEASIBLE, CLOUD, INK, QUIET = "#e9e9e9", "#c9ced4", "#222222", "#666666"

SETTINGS = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.linewidth": 0.4,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "jaxroof",
}

PREFIXES = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
PLAIN_UNITS = ("1", "", "1/s", "1/J")
"""Units that words say and that take no prefix."""

LARGEST_RATIO = 3.0
"""Of predicted to measured times; what is beyond is drawn at the edge."""

MOST_DECADES = 5
"""Of a logarithmic axis with a tick at each; on longer ones every other decade has one."""

_TITLE_INCHES, _DETAIL_INCHES, _SOURCE_INCHES, _MARGIN = 0.25, 0.19, 0.16, 0.12


def matplotlib() -> Any:
    """The matplotlib package; ValueError in one line where it is not installed."""
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.patches
        import matplotlib.patheffects
        import matplotlib.ticker
    except ImportError:
        raise ValueError(f"plots need matplotlib: {installing('plot')}") from None
    return matplotlib


def styled(picture: Callable[..., Any]) -> Callable[..., Any]:
    """`picture`, drawn with `SETTINGS` whatever the caller's own are."""

    @functools.wraps(picture)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        # Settings hold during the call alone: matplotlib's own are the caller's.
        with matplotlib().rc_context(SETTINGS):
            return picture(*args, **kwargs)

    return drawn


def figure(width: float, height: float, title: str, details: str = "", source: str = "") -> Any:
    """An empty figure, without pyplot and its global state, whose heading says what it shows.

    Args:
      width, height: inches, of what is below the heading.
      title: the answer, as a sentence.
      details: its particulars, in smaller letters.
      source: what the numbers are of, in one line at the foot; what is longer is cut.
    """
    # Widths in letters of each size for every inch of the figure.
    titles = textwrap.wrap(title, int(width * 9.8), break_on_hyphens=False)
    smalls = [
        line for part in details.splitlines() for line in textwrap.wrap(part, int(width * 13.5), break_on_hyphens=False)
    ]
    feet = textwrap.wrap(source, int(width * 15.5), break_on_hyphens=False, max_lines=1, placeholder=" ...")
    # Inches above and below the drawing, by the number of lines.
    above = len(titles) * _TITLE_INCHES + len(smalls) * _DETAIL_INCHES + 2 * _MARGIN
    below = len(feet) * _SOURCE_INCHES + _MARGIN
    total_height = above + height + below
    fig = matplotlib().figure.Figure(figsize=(width, total_height), layout="constrained", dpi=DOTS_PER_INCH)
    # A canvas without pyplot: figures are drawn without a window or global state.
    matplotlib().backends.backend_agg.FigureCanvasAgg(fig)
    # The layout engine places panels within what the heading leaves, in shares of the figure.
    fig.get_layout_engine().set(
        rect=(_MARGIN / width, below / total_height, 1 - 2 * _MARGIN / width, height / total_height),
        wspace=0.06,
        hspace=0.06,
    )
    top = 1 - _MARGIN / total_height
    place = {"x": _MARGIN / width, "ha": "left", "linespacing": 1.25}
    fig.text(y=top, s="\n".join(titles), va="top", fontsize=12, fontweight="bold", color=INK, **place)
    top -= len(titles) * _TITLE_INCHES / total_height
    fig.text(y=top, s="\n".join(smalls), va="top", fontsize=9.5, color=INK, **place)
    fig.text(y=_MARGIN / total_height / 2, s="\n".join(feet), va="bottom", fontsize=7.5, color=QUIET, **place)
    return fig


def panels(count: int, columns: int, size: tuple[float, float], more: tuple[float, float], *heading: str) -> Any:
    """A figure of `count` panels in rows, and the panels in their order; the rest of the last row stays empty.

    Args:
      count, columns: panels, and how many stand side by side.
      size: width and height in inches of a panel.
      more: width and height in inches beside all of them.
      *heading: title, details and source, as `figure` takes them.
    """
    rows = -(-count // columns)
    fig = figure(columns * size[0] + more[0], rows * size[1] + more[1], *heading)
    grid = fig.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return fig, list(grid[:count])


def saved(made: Any, path: str | os.PathLike[str], force: bool = False) -> None:
    """Write a figure as PNG or SVG, as `path` ends; it appears when it is whole.

    Args:
      made: the figure.
      path: the file.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line, for another ending, or a file that must not or cannot be written: `hwspaces.files.output`.
    """
    ending = pathlib.Path(path).suffix.lower()[1:]
    # Settings again, since text is laid out while the figure is saved.
    with replacing(path, PICTURE, force=force) as name, matplotlib().rc_context(SETTINGS):
        made.savefig(name, format=ending, metadata=MARKS[ending])


def pictures(folder: str, made: Iterable[tuple[str, Any]], force: bool = False) -> list[str]:
    """Write figures as NAME.png into a folder, which is made where there is none; returns their paths."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in made:
        written.append(str(pathlib.Path(folder) / f"{name}.png"))
        saved(figure, written[-1], force)
    return written


def prefix(values: np.ndarray, unit: str) -> tuple[str, float]:
    """The SI prefix that suits the middle of `values`, and its size; none for numbers that take none."""
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    # Prices are stated per hour: a USD/s is 3600 USD/h.
    if unit == "USD/s":
        return "", 1 / 3600.0
    if unit in PLAIN_UNITS or not finite.size:
        return "", 1.0
    # The geometric middle of the values, to which the largest prefix below it is chosen.
    middle = float(np.sqrt(float(finite.min()) * float(finite.max())))
    name = max((p for p, size in PREFIXES.items() if size <= middle * 1.001), key=PREFIXES.__getitem__, default="p")
    return name, PREFIXES[name]


def quantity_label(words: str, unit: str, values: np.ndarray) -> str:
    """Name of a quantity with its scaled unit: "HBM bandwidth (TB/s)"."""
    words = words[:1].upper() + words[1:]
    if unit in PLAIN_UNITS:
        return words
    return f"{words} (USD/h)" if unit == "USD/s" else f"{words} ({prefix(values, unit)[0]}{unit})"


def scaled_ticks(axis: Any, values: np.ndarray, unit: str, log: bool) -> None:
    """Ticks of an axis within the range of `values`, at round numbers of the prefix that suits them."""
    scale = prefix(values, unit)[1]
    finite = values[np.isfinite(values) & (values > 0)] if log else values[np.isfinite(values)]
    if not finite.size:
        return
    low, high = float(finite.min()) / scale, float(finite.max()) / scale
    ticks = round_numbers(low, high, log)
    if len(ticks) < 2:  # a range too narrow for round numbers
        ticks = np.array([low, high])
    axis.set_minor_locator(matplotlib().ticker.NullLocator())
    axis.set_ticks(ticks * scale, [tick_text(float(f"{tick:.4g}")) for tick in ticks])


def wide(values: np.ndarray) -> bool:
    """True for numbers that a logarithmic axis suits: positive, the largest more than five times the smallest."""
    return bool(values.size and (values > 0).all() and values.max() / values.min() > 5)


def quantity_axis(
    axes: Any, side: str, words: str, unit: str, values: np.ndarray, log: bool | None = None, limits: Any = None
) -> None:
    """Scale, ticks and label of the `side` ("x" or "y") of a matplotlib Axes.

    Args:
      axes: the Axes.
      side: which of its two sides.
      words, unit: name and SI unit of the quantity.
      values: what is shown of it.
      log: whether the scale is logarithmic; None: where that suits the values.
      limits: both ends, up to which there are ticks; None: the ticks end with the values.
    """
    log = wide(values) if log is None else log
    getattr(axes, f"set_{side}scale")("log" if log else "linear")
    scaled_ticks(getattr(axes, f"{side}axis"), values if limits is None else np.asarray(limits), unit, log)
    getattr(axes, f"set_{side}label")(quantity_label(words, unit, values))
    if limits is not None:
        getattr(axes, f"set_{side}lim")(*limits)


def equal_axes(axes: Any, values: np.ndarray, words: tuple[str, str], share: float, room: float) -> None:
    """Equal logarithmic axes of two times in s that ought to be the same, with lines where they are, and nearly are.

    Args:
      axes: the Axes.
      values: all times of both.
      words: names of the times, across and upwards.
      share: by which the outer lines are off.
      room: factor between the times and the ends of the axes.
    """
    ends = np.array([values.min() / room, values.max() * room])
    for factor, width in ((1.0, 0.9), (1.0 - share, 0.5), (1.0 + share, 0.5)):
        axes.plot(ends, factor * ends, "-", color=QUIET, lw=width, zorder=1)
    for side, word in zip("xy", words, strict=True):
        quantity_axis(axes, side, word, "s", values, True)
    axes.set(xlim=ends, ylim=ends, aspect="equal")


def ratio_axis(axes: Any) -> None:
    """A logarithmic y axis of predicted over measured times, up to `LARGEST_RATIO`."""
    axes.set(yscale="log", ylim=(1.0 / LARGEST_RATIO, LARGEST_RATIO))
    axes.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
    axes.minorticks_off()


def spread_of(groups: Iterable[np.ndarray | list[float]]) -> np.ndarray:
    """5 %, 50 % and 95 % quantiles of every group, shape (3, groups)."""
    return np.array([np.quantile(group, (0.05, 0.5, 0.95)) for group in groups]).reshape(-1, 3).T


def grid_behind(axes: Any, axis: str = "y", width: float = 0.8) -> None:
    """Pale lines at the ticks of an axis, or of "both", behind what is drawn."""
    axes.grid(axis=axis, color=INFEASIBLE, lw=width)
    axes.set_axisbelow(True)


def colour_scale(low: float, high: float, higher_is_better: bool) -> dict[str, Any]:
    """Colours of a metric from `low` to `high`, as matplotlib takes them: the best is bright."""
    colors = matplotlib().colors
    norm = colors.LogNorm(low, high) if high / low > 5 else colors.Normalize(low, high)
    return {"norm": norm, "cmap": "viridis" if higher_is_better else "viridis_r"}


def colour_bar(made: Any, drawn: Any, axes: Any, words: str, unit: str, values: np.ndarray) -> None:
    """A bar beside `axes` that says what the colours of a metric mean; `values` are all that are drawn."""
    bar = made.colorbar(drawn, ax=axes, pad=0.02, fraction=0.06, aspect=28)
    bar.set_label(quantity_label(words, unit, values))
    low, high = drawn.norm.vmin, drawn.norm.vmax
    scaled_ticks(bar.ax.yaxis, np.array([low, high]), unit, high / low > 5)
    bar.outline.set_visible(False)


def evenly(count: int, most: int) -> np.ndarray:
    """Positions of at most `most` of `count`, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))


def round_numbers(low: float, high: float, log: bool) -> np.ndarray:
    """Round numbers from `low` to `high`, a handful or two."""
    if log:
        decades = np.log10(high / low)
        # More digits between powers of ten on short axes than on long ones.
        leading = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1 else (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        step = 1 if decades < MOST_DECADES else 2
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1, step)
        numbers = np.outer(powers, leading).ravel()
    else:
        numbers = matplotlib().ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return numbers[(numbers >= low - 1e-6 * abs(low)) & (numbers <= high + 1e-6 * abs(high))]


def tick_text(value: float) -> str:
    """A tick's number without useless digits: 0.5, 20, 1,000."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
