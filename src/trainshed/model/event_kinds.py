"""The kinds of a job's events from which the times of its attempts are read."""

from typing import Final

PLACED: Final = "PLACED"
PREPARING: Final = "PREPARING"
RUNNING: Final = "RUNNING"
HUNG: Final = "HUNG"
RECOVERED: Final = "RECOVERED"
RESTART_ORDERED: Final = "RESTART_ORDERED"
CANCELLING: Final = "CANCELLING"
RESTARTING: Final = "RESTARTING"
HELD: Final = "HELD"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
#: The name of a figure of an ended replica: whether it ended within its notice.
NOTICE_HONOURED: Final = "notice_honoured"
#: The goodput and the cost of a job that has ended.
GOODPUT: Final = "GOODPUT"

#: An attempt has its machines from the first of these events on.
HOLDS: Final = frozenset({PLACED, PREPARING, RUNNING})
#: An attempt has got its notice.
STOPS: Final = frozenset({RESTART_ORDERED, CANCELLING})
#: An attempt has ended without success, unless it got a notice.
FAILS: Final = frozenset({RESTARTING, HELD, FAILED})
#: An attempt has ended.
ENDS: Final = FAILS | {SUCCEEDED, CANCELLED}
