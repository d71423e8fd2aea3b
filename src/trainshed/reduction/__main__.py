"""``python -m trainshed.reduction``: a reducer where its console script is not on the path."""

import sys

from trainshed.reduction.main import main

if __name__ == "__main__":
    sys.exit(main())
