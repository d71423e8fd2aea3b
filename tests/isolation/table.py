"""Print the table of ``make isolation``, or with ``--write`` put it into the docs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from isolation.expected import table

PAGE = Path(__file__).parents[2] / "docs/reference/isolation.md"
BEGIN, END = "<!-- begin: make isolation -->", "<!-- end: make isolation -->"


def page(text):
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([f"{before}{BEGIN}", *table(), f"{END}{after}"])


def main():
    if "--write" in sys.argv:
        PAGE.write_text(page(PAGE.read_text()))
    else:
        sys.stdout.write("\n".join(table()) + "\n")


if __name__ == "__main__":
    main()
