"""Plans which packages to install for a job, and which versions replace pins that cannot be met.

With ``relax_pins``, a pin without a version for this Python is relaxed before uv builds a package,
since resolving a source that compiles takes minutes.  A source that does not build is relaxed
afterwards.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from trainshed.engines.environments import pins, uv
from trainshed.engines.environments.interpreter import Interpreter
from trainshed.engines.environments.nearest import Index
from trainshed.engines.environments.uv import UvContext, UvResult
from trainshed.model.faults import EngineFault

_READABLE: Final = 0o644
_CANNOT: Final = "the packages' requirements cannot be met"
#: Advice for a pin that cannot be met; the first is for the operator, the others for the user.
_RELAX: Final = (
    "set relax_pins = true below [environments] in config.toml to install the nearest version; "
)
_REMEDIES: Final = (
    "run the job in a container, or in an [[environment]] whose Python has it; or change the pin."
)
#: A line of uv's plan: ``name==version``, ``name @ url`` or ``name==version (from url)``.
_PLANNED: Final = re.compile(
    r"^ \+ (?P<name>[^\s=]+)(?P<version>==\S+)?(?: @ (?P<url>\S+)| \(from (?P<origin>\S+)\))?$",
    re.MULTILINE,
)


class Plan:
    """The packages that uv must install; the plan changes with each pin that is relaxed."""

    def __init__(
        self,
        requirements: Sequence[str],
        wheels: Sequence[Path],
        interpreter: Interpreter,
        context: UvContext,
        relaxed: Callable[[str], None] | None,
    ) -> None:
        """``relaxed`` gets a note for each relaxed pin; None: pins are not relaxed."""
        self._requirements = (*map(str, wheels), *requirements)
        self._wheels = wheels
        self._interpreter = interpreter
        self._context = context
        self._relaxed = relaxed
        self._pins = pins.pinned(requirements, wheels)
        self._instead: dict[str, str] = {}
        self._step = context.work / "plan"
        self._step.mkdir()
        self._index = Index(interpreter.path, self._ask, context.wheels)

    def lacking(self) -> tuple[str, ...]:
        """Return the packages to install besides the wheels.  Raises EngineFault."""
        answer = self._resolve("--offline")
        relaxed = self._relaxes_unmet(answer)
        if (answer.code or relaxed) and not answer.disk_is_full:
            answer = self._resolve()
            while self.relaxes(answer):
                answer = self._resolve()
            self._refuse_unmet(answer)
        self.check(answer, _CANNOT)
        return tuple(_list_planned(answer.text, self._wheels))

    def relaxes(self, answer: UvResult) -> bool:
        """Relax the pin whose source failed to build; return whether to retry."""
        unmet = self._replace_unbuilt(answer) if self._relaxed else None
        if unmet is not None:
            self._relax(unmet)
        return unmet is not None

    def check(self, answer: UvResult, failure: str) -> None:
        """Raise EngineFault for a failed run, with remedies if a source does not build."""
        if answer.unbuilt is None or answer.disk_is_full:
            uv.check(answer, failure, self._context)
            return
        pin, unmet = "==".join(answer.unbuilt), self._replace_unbuilt(answer)
        other = f" (the nearest version that has a wheel is {unmet.nearest})" if unmet else ""
        raise EngineFault(
            f"{failure}:\n{pin} has no wheel for Python {self._interpreter.version} on this machine"
            f"{other}, and its source does not build.\n"
            f"{_describe_remedies(relaxing=unmet is not None)}\n{answer.last_lines()}"
        )

    def _resolve(self, *how: str) -> UvResult:
        # --break-system-packages: without it uv refuses a distribution's Python, also in a dry run
        words = ("pip", "install", "--dry-run", "--break-system-packages", *how)
        python = ("--python", self._interpreter.path)
        return self._ask([*words, *python, *self._overrides(), *self._requirements])

    def _overrides(self) -> tuple[str, ...]:
        if not self._instead:
            return ()
        file = self._context.wheels / "overrides.txt"
        file.write_text("".join(f"{name}=={other}\n" for name, other in self._instead.items()))
        file.chmod(_READABLE)
        return ("--override", str(file))

    def _relaxes_unmet(self, answer: UvResult) -> bool:
        """Relax pins that cannot be met; return whether there were any.

        Checks nothing if the interpreter has all packages.  An offline plan may contain a source
        from uv's cache that failed to build before.
        """
        if self._relaxed is None or not (
            answer.code or any(_list_planned(answer.text, self._wheels))
        ):
            return False
        unmet_pins = list(pins.unmet(self._select_unrelaxed(), self._index))
        for unmet in unmet_pins:
            self._relax(unmet)
        return bool(unmet_pins)

    def _relax(self, pin: pins.Unmet) -> None:
        if self._relaxed:
            self._relaxed(
                f"{pin.pin} cannot be installed for this Python; installing {pin.nearest} instead"
            )
        self._instead[pin.name] = pin.nearest

    def _refuse_unmet(self, answer: UvResult) -> None:
        """Raise EngineFault if pins may not be relaxed and one of them has no version."""
        if not answer.code or answer.unbuilt or answer.disk_is_full or self._relaxed:
            return
        unmet_pins = [
            unmet for unmet in pins.unmet(self._pins, self._index) if not unmet.has_source
        ]
        if unmet_pins:
            names = ", ".join(
                f"{unmet.pin} (the nearest is {unmet.nearest})" for unmet in unmet_pins
            )
            raise EngineFault(
                f"{_CANNOT}:\nNo version for the Python of this job: {names}.\n"
                f"{_describe_remedies(relaxing=True)}"
            )

    def _replace_unbuilt(self, answer: UvResult) -> pins.Unmet | None:
        if answer.unbuilt is None or answer.disk_is_full:
            return None
        pin = pins.find_pin(answer.unbuilt[0], self._select_unrelaxed())
        return None if pin is None else pins.unbuilt(*pin, self._index)

    def _select_unrelaxed(self) -> pins.Pins:
        return {key: pin for key, pin in self._pins.items() if pin[0] not in self._instead}

    def _ask(self, words: Sequence[str]) -> UvResult:
        return uv.ask(words, self._context, self._step)


def _list_planned(text: str, wheels: Sequence[Path]) -> Iterator[str]:
    own_urls = {wheel.as_uri() for wheel in wheels}
    for match in _PLANNED.finditer(text):
        url = match["url"] or match["origin"]
        if url is None:
            yield match["name"] + (match["version"] or "")
        elif url not in own_urls:
            yield f"{match['name']} @ {url}"


def _describe_remedies(*, relaxing: bool) -> str:
    return f"What to do: {_RELAX if relaxing else ''}{_REMEDIES}"
