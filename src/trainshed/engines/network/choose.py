"""Which network the jobs of a server have: by trying it at the start, within a bound."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import trainshed
from trainshed.engines.isolation_modes import SANDBOX, USERS
from trainshed.engines.network.kinds import AUTO, HOST, JOB
from trainshed.model.faults import UsageFault

_MODES: Final = (USERS, SANDBOX)
_TRIAL_S_MAX: Final = 30.0
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1])\n"
    "from trainshed.engines.network.trial import main\n"
    "sys.exit(main(sys.argv[2]))"
)


class JobNetwork(NamedTuple):
    """Whether each attempt has a network of its own; if not, why."""

    is_own: bool
    why_not: str = ""

    @property
    def description(self) -> str:
        """For people: ``job``, ``host``, or ``host`` with the reason."""
        if self.is_own:
            return JOB
        return f"{HOST}: {self.why_not}" if self.why_not else HOST


def choose_network(setting: str, mode: str, try_network: Callable[[str], str]) -> JobNetwork:
    """Decide for an isolation mode; ``try_network`` says why that has none here.

    Raises UsageFault where the setting asks for a network that cannot be had.
    """
    if setting == HOST:
        return JobNetwork(is_own=False)
    if mode not in _MODES:
        accepted = " and ".join(f'"{name}"' for name in _MODES)
        why = f'jobs have a network of their own in the isolation modes {accepted}, not in "{mode}"'
    else:
        why = try_network(mode)
    if why and setting != AUTO:
        raise UsageFault(f'[isolation] network is "{setting}", which does not work here: {why}')
    return JobNetwork(not why, why)


@functools.cache
def try_network(mode: str) -> str:
    """Why jobs cannot have a network of their own here; empty where they can."""
    source = str(Path(trainshed.__file__).parent.parent)
    argv = [sys.executable, "-I", "-S", "-c", _CODE, source, mode]
    try:
        done = subprocess.run(  # noqa: S603 - ourselves
            argv, capture_output=True, text=True, timeout=_TRIAL_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the trial did not end within {_TRIAL_S_MAX:g} s"
    except OSError as error:
        return str(error)
    if not done.returncode:
        return ""
    words = done.stdout.strip() or done.stderr.strip()
    return (words.splitlines() or ["no answer"])[-1]
