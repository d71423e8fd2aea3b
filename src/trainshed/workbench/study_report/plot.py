"""A plot of a report: its title, a sentence about it, and its figure in plotly's JSON."""

from dataclasses import dataclass
from typing import Any, Final

HEIGHT_PX: Final = 460
MARGIN_PX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot as plotly's JSON; without JSON, ``about`` gives the reason."""

    title: str
    about: str
    figure: str | None = None


def lay_out(title: str, about: str, figure: Any, height: int = HEIGHT_PX) -> Plot:
    """Lay a figure out for the page, without its title: the page itself shows the title."""
    margin = {"l": 2 * MARGIN_PX, "r": MARGIN_PX, "t": MARGIN_PX, "b": 2 * MARGIN_PX}
    figure.update_layout(
        title=None, template="plotly_white", height=height, margin=margin, autosize=True
    )
    return Plot(title=title, about=about, figure=figure.to_json())
