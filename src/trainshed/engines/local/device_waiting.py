"""The module that supervisors of the previous release run to wait for their job's devices."""

import sys

from trainshed.engines.local.devices.wait import main

if __name__ == "__main__":
    sys.exit(main())
