"""What every store must do.  Inherit the class and supply two pytest fixtures.

``clock`` is a ``HandClock``; ``store`` is an empty store that takes its time from it.
"""

from trainshed.testing.store_forgetting import ForgettingContract
from trainshed.testing.store_jobs import JobsContract
from trainshed.testing.store_lists import ListsContract
from trainshed.testing.store_rest import RestContract
from trainshed.testing.store_steps import StepsContract
from trainshed.testing.store_studies import StudiesContract
from trainshed.testing.store_times import TimesContract
from trainshed.testing.store_trials import StudyEndsContract, TrialsContract
from trainshed.testing.store_work import WorkContract


class StoreContract(
    JobsContract,
    ListsContract,
    StepsContract,
    TimesContract,
    ForgettingContract,
    WorkContract,
    RestContract,
    StudiesContract,
    TrialsContract,
    StudyEndsContract,
):
    """All of it."""
