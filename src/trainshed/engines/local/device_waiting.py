"""The name under which supervisors of the release before wait for devices at their job's end."""

import sys

from trainshed.engines.local.devices.wait import main

if __name__ == "__main__":
    sys.exit(main())
