"""Chooses what a program runs in: an environment in place of its image, or the image itself.

The administrator's table comes first.  For Google's images and runtime versions, the server derives
the content from the name and uses the nearest environment; the job's log names the differences.
Any other image runs in a container, if there is a container runtime.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

from trainshed.catalog.software import (
    PrebuiltImage,
    Version,
    is_reduction_server,
    packages_of,
    prebuilt_image,
    runtimes,
    version,
)
from trainshed.engines import container_runtime
from trainshed.model.faults import UsageFault
from trainshed.model.job import Program
from trainshed.model.texts import join_names
from trainshed.service.starts.interpreters import Installed, installed

#: The server's own interpreter.
DEFAULT = "default"
#: In a row of the table: the image itself is run, in a container.
CONTAINER = "container"
#: A first check of names, so that no name is read as an option; runtimes check the rest.
IMAGE_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
#: How many missing packages a note names.
_LACKS_NAMED = 6
#: The most images and versions whose stand-in is cached: tables and environments do not change.
_REMEMBERED_MAX = 1024
#: No image has a longer name; longer names are not cached.
_REMEMBERED_LENGTH_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEnvironment:
    """A Python on this machine that jobs run in; ``python`` is its interpreter."""

    name: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMapping:
    """An image pattern (``*`` wildcards) or runtime version, and the environment used for it.

    ``entrypoint`` starts containers that give no command.  The environment ``container`` is the
    image itself, in a container, or the image ``run`` in the place of the image or the runtime
    version.
    """

    environment: str
    image: str | None = None
    runtime_version: str | None = None
    entrypoint: tuple[str, ...] = ()
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """The environment in which a program runs.  ``note`` is a sentence on it for the job's log.

    ``image`` is the image of a container; empty for a process.
    """

    environment: str
    python: str
    entrypoint: tuple[str, ...] = ()
    note: str = ""
    image: str = ""

    @property
    def is_container(self) -> bool:
        """Whether the program runs in its own image."""
        return self.environment == CONTAINER


class ImagesByEngine(Protocol):
    """A table for every engine."""

    def of(self, engine: str) -> "Images":
        """Return the table of an engine; an empty name is the first engine."""


class Images:
    """The table, over the environments of this machine."""

    def __init__(
        self,
        environments: Sequence[LocalEnvironment],
        mappings: Sequence[ImageMapping],
        default_python: str,
        containers: container_runtime.RuntimeChoice = container_runtime.NONE,
        ask: Callable[[str], Installed] | None = None,
    ) -> None:
        """``ask`` returns the packages of an interpreter; if None, the server runs the interpreter.

        An empty ``default_python``: programs run in containers or in ``environments`` alone.
        Raises UsageFault for a row of an environment that is not configured.
        """
        self._ask = ask or installed
        defaults = {DEFAULT: default_python} if default_python else {}
        self._pythons = {**defaults, **{e.name: e.python for e in environments}}
        self._has_default = any(environment.name == DEFAULT for environment in environments)
        self._mappings = tuple(mappings)
        self._containers = containers
        # an engine may report a remote interpreter's packages later, so these are not cached
        self._named = self._for_name if ask else lru_cache(_REMEMBERED_MAX)(self._for_name)
        for mapping in mappings:
            self._check(mapping)

    def of(self, _engine: str) -> "Images":
        """Return this table, which serves all engines."""
        return self

    @property
    def no_containers(self) -> str:
        """Why images cannot run in containers; empty with a container runtime."""
        return self._containers.reason

    @property
    def way_to_containers(self) -> str:
        """Return what an administrator must set up so that images can run."""
        return self._containers.remedy

    @property
    def needs_command(self) -> str:
        """Why containers need a command in the job or in the table; empty: they do not."""
        runtime = self._containers.runtime
        return runtime.needs_command if runtime else ""

    def _check(self, mapping: ImageMapping) -> None:
        if mapping.environment == CONTAINER:
            _check_container(mapping)
        elif mapping.run is not None:
            raise UsageFault(
                f'`run` of an [[image]] needs environment = "{CONTAINER}", got '
                f"{mapping.environment!r}"
            )
        elif mapping.environment not in {DEFAULT, *self._pythons}:
            names = ", ".join([*self._pythons, CONTAINER])
            message = f"an [[image]] names the environment {mapping.environment!r}"
            raise UsageFault(f"{message}, and there are only {names}")

    def stand_in(self, program: Program) -> StandIn | None:
        """Return where a program runs; None for an image that cannot be run or replaced."""
        names = program.image_uri, program.runtime_version, program.python_version
        is_short = sum(len(name or "") for name in names) <= _REMEMBERED_LENGTH_MAX
        return (self._named if is_short else self._for_name)(*names)

    def _for_name(
        self, image_uri: str | None, runtime_version: str | None, python: str | None
    ) -> StandIn | None:
        if image_uri:
            return self._for_image(image_uri)
        if runtime_version:
            return self._for_runtime(runtime_version, python)
        return self._use_default()

    def _use_default(self) -> StandIn | None:
        python = self._pythons.get(DEFAULT)
        return StandIn(environment=DEFAULT, python=python) if python else None

    def _for_image(self, uri: str) -> StandIn | None:
        mapping = next((m for m in self._mappings if _fits(m.image, uri)), None)
        if mapping and mapping.environment in self._pythons:
            return self._use_mapping(mapping, uri)
        if is_reduction_server(uri) and (default := self._use_default()):
            return default
        prebuilt = None if mapping else prebuilt_image(uri)
        is_here = self._is_known or self._has_default
        if (
            prebuilt
            and is_here
            and (self._containers.runtime is None or self._has_framework(prebuilt.framework))
        ):
            return self._find_nearest(prebuilt, uri)
        return self._run_in_container(uri, mapping)

    def _run_in_container(self, request: str, mapping: ImageMapping | None) -> StandIn | None:
        """Run an image, or the image that a row names for it."""
        runtime = self._containers.runtime
        if runtime is None:
            return None
        image = (mapping and mapping.run) or request
        notes = (
            "" if image == request else _describe_mapping(request, image, runtime),
            "" if runtime.runs_all_jobs else _describe_container(image, runtime),
        )
        return StandIn(
            environment=CONTAINER,
            python=self._pythons.get(DEFAULT, ""),
            entrypoint=tuple(mapping.entrypoint) if mapping else (),
            note=" ".join(filter(None, notes)),
            image=image,
        )

    @property
    def _is_known(self) -> bool:
        """Whether the content of environments is known.

        Otherwise only the table and a configured default environment are used.
        """
        return any(content.is_known for _, content in self._candidates())

    def _has_framework(self, framework: str) -> bool:
        """Whether an environment can replace an image of a framework."""
        return any(framework in content.frameworks for _, content in self._candidates())

    def _for_runtime(self, name: str, python: str | None) -> StandIn | None:
        rows = (m for m in self._mappings if _fits(m.runtime_version, name))
        mapping = next((m for m in rows if self._can_use(m)), None)
        request = f"runtime version {name}"
        if mapping and mapping.environment == CONTAINER:
            return self._run_in_container(request, mapping)
        if mapping:
            return self._note_lacks(self._use_mapping(mapping, request), name)
        if not self._pythons:
            return None
        runtime = runtimes().get(name)
        tensorflow = runtime.tensorflow if runtime else name
        prebuilt = PrebuiltImage(
            framework="TensorFlow", version=tensorflow, accelerator="cpu", python=python
        )
        return self._note_lacks(self._find_nearest(prebuilt, request), name)

    def _can_use(self, mapping: ImageMapping) -> bool:
        """Whether a row for a runtime version applies here: not to an image without containers."""
        has_containers = self._containers.runtime is not None
        return mapping.environment in self._pythons or (
            mapping.environment == CONTAINER and has_containers
        )

    def _use_mapping(self, mapping: ImageMapping, request: str) -> StandIn:
        name = mapping.environment
        python = self._pythons[name]
        return StandIn(
            environment=name,
            python=python,
            entrypoint=tuple(mapping.entrypoint),
            note=f"Asked for {request}; the configuration maps it to environment {name}"
            f"{_describe_content(self._ask(python))}.",
        )

    def _find_nearest(self, prebuilt: PrebuiltImage, request: str) -> StandIn:
        """Return the first environment with the nearest version of the framework."""
        candidates = dict(self._candidates())
        name = min(candidates, key=lambda name: _distance(prebuilt, candidates[name]))
        name = name if self._is_known or DEFAULT not in candidates else DEFAULT
        note = (
            f"Asked for {prebuilt.content} ({request}); runs in environment {name}"
            f"{_describe_content(candidates[name], prebuilt.framework or None)}."
        )
        return StandIn(environment=name, python=self._pythons[name], note=note)

    def _candidates(self) -> Iterator[tuple[str, Installed]]:
        """Yield the configured environments in their order, then the server's own."""
        for name in sorted(self._pythons, key=lambda name: name == DEFAULT):
            yield name, self._ask(self._pythons[name])

    def has_trainer(self, python: str) -> bool:
        """Whether an interpreter has the trainer library, so that it needs no copy."""
        return self._ask(python).has_trainer

    def _note_lacks(self, stand_in: StandIn, runtime: str) -> StandIn:
        """Add to the note the runtime version's packages that the environment lacks."""
        content = self._ask(stand_in.python)
        lacks = [name for name in packages_of(runtime) if name not in content.packages]
        if not (content.python and lacks):
            return stand_in
        named = join_names(lacks, _LACKS_NAMED)
        note = (
            f"{stand_in.note} It lacks {named}, which runtime version {runtime} had; "
            f"`trainshed environments build DIR --runtime {runtime}` makes an environment that "
            f"has {'it' if len(lacks) == 1 else 'them'}."
        )
        return replace(stand_in, note=note)


def _check_container(mapping: ImageMapping) -> None:
    """Check a row of the environment ``container``.  Raises UsageFault."""
    row = f'an [[image]] of the environment "{CONTAINER}"'
    if mapping.image is None and (mapping.runtime_version is None or mapping.run is None):
        raise UsageFault(f"{row} must have `image`, or both `runtime_version` and `run`")
    if mapping.run is not None and not IMAGE_FORM.fullmatch(mapping.run):
        raise UsageFault(f"`run` of {row} must be the name of an image, got {mapping.run!r}")


def _describe_mapping(request: str, image: str, runtime: container_runtime.Runtime) -> str:
    name = f"the image {image}" if runtime.runs_all_jobs else "an image"
    return f"Asked for {request}; the configuration maps it to {name}."


def _describe_container(image: str, runtime: container_runtime.Runtime) -> str:
    user = f", as user {runtime.user}" if runtime.user else ""
    if runtime.user == container_runtime.USER_OF_PROJECT:
        user = ", as the user of its project"
    note = f"The image {image} runs in a container of {runtime.name}{user}."
    if runtime.is_read_only:
        note += " Its own files cannot be changed; /tmp and the job's folders can."
    return note


def _fits(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return False
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text) is not None


def _describe_content(content: Installed, framework: str | None = None) -> str:
    """Return for example ``: PyTorch 2.13.0, Python 3.11``."""
    if not content.is_known:
        return ""
    if not content.python:
        return ", whose interpreter does not answer"
    names = content.frameworks if framework is None else (framework,)
    versions = [
        f"{name} {content.frameworks[name]}" for name in names if name in content.frameworks
    ]
    missing = f"no {framework}, " if framework and not versions else ""
    return f": {missing}{', '.join([*versions, f'Python {content.python}'])}"


_Distance = tuple[bool, bool, tuple[int, ...], bool]


def _distance(prebuilt: PrebuiltImage, content: Installed) -> _Distance:
    """Return a sort key, smaller is nearer: answers, has the framework, its version, Python's."""
    installed_version = content.frameworks.get(prebuilt.framework)
    gaps = _gaps(version(prebuilt.version), version(installed_version)) if installed_version else ()
    has_none = installed_version is None and bool(prebuilt.framework)
    return (not content.python, has_none, gaps, content.python != prebuilt.python)


def _gaps(target: Version, available: Version) -> tuple[int, ...]:
    """Return the distance of two versions, part by part.

    Parts after the first different one do not count: 1.15 is as near to 2.4 as to 2.11.
    """
    gaps: list[int] = []
    for target_part, available_part in zip(target, available, strict=False):
        gaps.append(abs(available_part - target_part))
        if available_part != target_part:
            break
    return tuple(gaps)
