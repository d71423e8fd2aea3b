"""How the archive begins: with what an older Python lacks at hand."""

import sys
from collections.abc import Sequence

from trainshed.engines.warden.main import main as begin


def main(argv: Sequence[str]) -> int:
    """Be what the words behind the archive's own name say."""
    sys.path.append(f"{argv[0]}/newer")
    return begin(argv[1:])
