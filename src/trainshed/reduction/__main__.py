"""``python -m trainshed.reduction`` runs a reducer without its console script."""

import sys

from trainshed.reduction.main import main

if __name__ == "__main__":
    sys.exit(main())
