"""Draws the picture in ARCHITECTURE.md from the import contracts in pyproject.toml.

The contracts are what the test command checks, so the picture cannot say anything else.
``python scripts/draw_architecture.py`` rewrites the page.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "ARCHITECTURE.md"
BEGIN: Final = "<!-- begin: scripts/draw_architecture.py -->\n"
END: Final = "<!-- end: scripts/draw_architecture.py -->\n"

#: Columns between the two sides of the picture.
_WIDTH: Final = 83

Contract = Mapping[str, Any]


def picture(pyproject: Mapping[str, Any]) -> str:
    """The layers from the top down, and below them the contracts that are no layers."""
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")
    pure = set(
        next(contract for contract in contracts if "I/O" in contract["name"])["source_modules"]
    )
    floors = [_rooms(floor, pure) for floor in layers["layers"]]
    other_contracts = "\n".join(
        f"- {contract['name']}" for contract in contracts if contract is not layers
    )
    drawn = "\n".join(_drawn(floors))
    return f"```\n{drawn}\n```\n\n`*` does no I/O. The other contracts:\n\n{other_contracts}\n"


def page(text: str, drawn: str) -> str:
    """The page with a new picture between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{drawn}{END}{after}"


def _rooms(floor: str, pure: set[str]) -> list[str]:
    names = [name.strip() for name in floor.split("|")]
    return [f"{name} *" if f"trainshed.{name}" in pure else name for name in names]


def _drawn(floors: list[list[str]]) -> Iterator[str]:
    """Each floor may import those below it; rooms beside each other never import each other."""
    walls: set[int] = set()
    for floor in floors:
        widths = _widths(len(floor))
        here = {sum(widths[:i]) + i for i in range(1, len(floor))}
        yield _line(walls, here, "┌─┐" if floor is floors[0] else "├─┤")
        cells = [name.center(width) for name, width in zip(floor, widths, strict=True)]
        yield f"│{'│'.join(cells)}│"
        walls = here
    yield _line(walls, set(), "└─┘")


def _widths(rooms: int) -> list[int]:
    free = _WIDTH - (rooms - 1)
    return [free // rooms + (i < free % rooms) for i in range(rooms)]


def _line(above: set[int], below: set[int], ends: str) -> str:
    """A floor's upper edge; walls that end or begin there are joined to it."""
    joints = {(True, True): "┼", (True, False): "┴", (False, True): "┬", (False, False): "─"}
    inner = "".join(joints[i in above, i in below] for i in range(1, _WIDTH + 1))
    return f"{ends[0]}{inner}{ends[2]}"


def main() -> None:
    """Rewrite the page."""
    drawn = picture(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8")))
    PAGE.write_text(page(PAGE.read_text("utf-8"), drawn), encoding="utf-8")


if __name__ == "__main__":
    main()
