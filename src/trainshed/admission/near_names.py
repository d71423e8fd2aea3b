"""Finds the name that the caller most likely meant: machine types, accelerators, regions.

String distance is not enough: ``NVIDIA_TESLA_L4`` has more letters in common with
``NVIDIA_TESLA_T4`` and means ``NVIDIA_L4``, and ``us-central1-a`` is a zone of ``us-central1``.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from trainshed.model.spelling import letters_of, nearest_name

#: Words of an accelerator's name that do not identify it.
_GENERAL: Final = frozenset({"NVIDIA", "TESLA", "GPU", "ACCELERATOR", "TYPE", "GOOGLE"})

_KINDS: Final = frozenset({"TPU", "POD"})

#: Common names of some accelerators, and the words for them in the enum's names.
_ALIASES: Final = {"V5E": "LITEPOD", "V5LITEPOD": "LITEPOD", "V5LITE": "LITEPOD"}

_WORD: Final = re.compile(r"[A-Z0-9]+")
_ZONE: Final = re.compile(r"(.+\d)-?[a-z]")
_VERSION: Final = re.compile(r"(\d+)[.\-_](\d+)")
_LAST_NUMBER: Final = re.compile(r"(.*?)(\d+)(\D*)")


def near_accelerator(word: str, names: Sequence[str]) -> str | None:
    """Return the accelerator of the same model, else the one with the most similar name."""
    target = _model_words(word)
    models = [(name, _model_words(name)) for name in names]
    rows = [
        (len(target ^ words), len(words), name)
        for name, words in models
        if any(map(_is_model, target & words))
    ]
    return min(rows)[2] if rows else nearest_name(word, names, cutoff=_ACCELERATOR_CUTOFF)


def known_accelerator(word: str, names: Iterable[str]) -> str | None:
    """Return the accelerator with exactly this name or model, such as ``T4``; None without one."""
    target = _model_words(word)
    if not any(map(_is_model, target)):
        return None
    return next((name for name in names if _model_words(name) == target), None)


#: A high cutoff: accelerators' names have most letters in common, and two models may differ by one.
_ACCELERATOR_CUTOFF: Final = 0.85


def _model_words(name: str) -> frozenset[str]:
    words = frozenset(_WORD.findall(name.upper())) - _GENERAL
    joined = "".join(_WORD.findall(name.upper()))
    aliases = {target for alias, target in _ALIASES.items() if joined.endswith(alias)}
    return words | aliases


def _is_model(word: str) -> bool:
    """Whether a word identifies an accelerator; an amount of memory does not."""
    return word not in _KINDS and not word.endswith("GB")


def near_machine_type(word: str, names: Iterable[str]) -> str | None:
    """Return the machine type with a similar name, else the next larger one of its family."""
    candidates = tuple(names)
    if same := _same_letters(word, candidates):
        return same
    match = _LAST_NUMBER.fullmatch(word.lower().replace("_", "-"))
    family = [name for name in candidates if match and _is_sibling(name, match)]
    if match and family:
        sizes = sorted((int(_number(name)), name) for name in family)
        larger = [name for size, name in sizes if size >= int(match[2])]
        return larger[0] if larger else sizes[-1][1]
    return _find_by_prefix(word, sorted(candidates, key=lambda name: (len(name), name)))


def _is_sibling(name: str, match: re.Match[str]) -> bool:
    parts = _LAST_NUMBER.fullmatch(name)
    return parts is not None and (parts[1], parts[3]) == (match[1], match[3])


def _number(name: str) -> str:
    match = _LAST_NUMBER.fullmatch(name)
    return match[2] if match else "0"


def near_region(word: str, names: Iterable[str]) -> str | None:
    """Return the region of a zone, else the one with a similar name."""
    candidates = tuple(sorted(names))
    zone = _ZONE.fullmatch(word.lower())
    return (_same_letters(zone[1], candidates) if zone else None) or _find_by_prefix(
        word, candidates
    )


def _find_by_prefix(word: str, candidates: Sequence[str]) -> str | None:
    """Return the first name that begins with a word, else the one with a similar name."""
    letters = letters_of(word)
    longer = [name for name in candidates if letters_of(name).startswith(letters)]
    return longer[0] if longer and len(letters) >= _PREFIX_MIN else nearest_name(word, candidates)


_PREFIX_MIN: Final = 4


def near_version(word: str, names: Iterable[str]) -> str | None:
    """Return the newest version with the same major number that is not newer than ``word``.

    If all are newer, return the oldest.  If ``word`` has no version, return the most similar name.
    """
    candidates = tuple(names)
    match = _VERSION.search(word)
    if match is None:
        return nearest_name(word, candidates)
    target = int(match[1]), int(match[2])
    versions = sorted((_parts(name), name) for name in candidates if _parts(name)[:1] == target[:1])
    older = [name for parts, name in versions if parts <= target]
    return older[-1] if older else versions[0][1] if versions else None


def _parts(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isdecimal())


def _same_letters(word: str, names: Iterable[str]) -> str | None:
    return next((name for name in names if letters_of(name) == letters_of(word)), None)
