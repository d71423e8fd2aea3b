"""How a shell reports the end of a program by a signal.

The reaper of an attempt lives as long as the attempt and needs this number alone.
"""

from typing import Final

#: A shell adds this to the number of the signal that ended a program.
SIGNAL_BASE: Final = 128
