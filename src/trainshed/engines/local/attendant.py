"""What whoever runs a job is told while it runs, and asked when it is to be stopped."""

import signal


class Attendant:
    """The manners of a terminal, where a second signal means now."""

    def ready(self) -> None:
        """Every replica has been started."""

    def decided(self, exit_code: int, message: str) -> None:
        """How the job ends is certain; replicas may still have to be stopped."""

    def caught_up(self) -> None:
        """All that has happened so far was delivered; a sink that gathers lines writes them."""

    def stop_asked(self, signum: signal.Signals, grace_s: float) -> tuple[float, str]:
        """The seconds of grace after a signal, by default ``grace_s``, and the line to say."""
        return grace_s, f"{signum.name}: stopping all replicas; again to kill them at once"

    def kills_when_asked_again(self) -> bool:
        """Whether a signal during the grace ends it."""
        return True
