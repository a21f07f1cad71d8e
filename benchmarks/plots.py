"""Plots: curves as small SVG pictures, by hand.

Lives here: how a few lines over one logarithmic axis are drawn, so that a person sees
at a glance whether a cost grows.  It measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 34, 46
_COLOURS = ("#1f6feb", "#d1242f", "#2da44e", "#8250df", "#bf8700", "#57606a")


@dataclass
class Curve:
    """One line: what it is, and its points."""

    name: str
    points: Sequence[tuple[float, float]]


def plot(title: str, across: str, up: str, curves: Sequence[Curve]) -> str:
    """An SVG picture of curves; both axes are logarithmic.

    So a cost for each piece that is flat is a level line, one that grows with the
    number of pieces climbs with the grid, and a whole cost that is linear does too.
    """
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    x_axis, y_axis = (
        _Axis(xs, _LEFT, _WIDTH - _RIGHT),
        _Axis(ys, _HEIGHT - _BOTTOM, _TOP),
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="11" fill="#24292f">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(title)}</text>',
    ]
    for tick in x_axis.ticks:
        x = x_axis.place(tick)
        parts += [
            _line(x, _TOP, x, _HEIGHT - _BOTTOM, "#d0d7de"),
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">'
            f"{_short(tick)}</text>",
        ]
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts += [
            _line(_LEFT, y, _WIDTH - _RIGHT, y, "#d0d7de"),
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short(tick)}</text>",
        ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts += [
        f'<text x="{middle:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">'
        f"{escape(across)}</text>",
        f'<text x="6" y="{_TOP - 6}">{escape(up)}</text>',
    ]
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(x_axis.place(x), y_axis.place(y)) for x, y in curve.points]
        told = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{told}" fill="none" stroke="{colour}"'
            ' stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
            for x, y in places
        ]
        y = _TOP + 12 + 16 * number
        x = _WIDTH - _RIGHT + 12
        parts += [
            _line(x, y - 4, x + 16, y - 4, colour),
            f'<text x="{x + 21}" y="{y}">{escape(curve.name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Powers of ten between two ends of the picture."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
        if low == high:
            high += 1
        self.ticks = [10.0**power for power in range(low, high + 1)]
        self._low, self._high, self._first, self._last = low, high, first, last

    def place(self, value: float) -> float:
        share = (log10(max(value, 10.0**self._low)) - self._low) / (
            self._high - self._low
        )
        return self._first + share * (self._last - self._first)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        f' stroke="{colour}"/>'
    )


def _short(value: float) -> str:
    """A power of ten as a person writes it."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
