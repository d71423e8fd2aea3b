"""Composes and parses comments of Slurm jobs: ``UID/ATTEMPT [kept] [PROJECT: NAME by CREATOR]``.

The attempt in a comment identifies the job.  The rest is for people who look at the queue; jobs of
earlier releases have comments without it.
"""

import re
from functools import lru_cache
from typing import Final

from trainshed.model.attempt import AttemptKey

_KEPT: Final = "kept"
_KEY_MAX: Final = 40
#: The most comments in memory: the server reads those of a whole queue again and again.
_REMEMBERED_MAX: Final = 1 << 14
#: The most characters of a project, a display name or a creator in a comment.
_WORD_MAX: Final = 48
#: Characters that a comment may not have: squeue separates fields by ``|`` and jobs by lines, and
#: databases of Slurm's accounting differ in what they do with characters beyond ASCII.
_OTHER: Final = re.compile(r"[^A-Za-z0-9 ._@:/+-]")


def compose_comment(key: AttemptKey, owner: str = "", *, is_kept: bool = False) -> str:
    """Compose the comment of a job; ``owner`` comes from ``describe_owner`` or ``owner_of``.

    ``is_kept``: the attempt has ended, and its allocation is kept for the next one.
    """
    return " ".join(filter(None, (str(key), _KEPT if is_kept else "", owner)))


def describe_owner(project: str, name: str, creator: str) -> str:
    """Describe whose a job is, in at most 150 characters; parts that are empty are left out."""
    project, name, creator = map(_shorten, (project, name, creator))
    title = " ".join(filter(None, (name, f"by {creator}" if creator else "")))
    return ": ".join(filter(None, (project, title)))


def owner_of(comment: str) -> str:
    """Return the description of the owner in a comment; empty: the comment has none."""
    words = comment.split(" ")[1:]
    return " ".join(words[1:] if words[:1] == [_KEPT] else words)


@lru_cache(_REMEMBERED_MAX)
def key_of(comment: str) -> AttemptKey | None:
    """Parse the attempt in a comment; None: the comment names no attempt."""
    word = comment.partition(" ")[0]
    uid, _, attempt = word.partition("/")
    is_key = uid.isdecimal() and attempt.isdecimal() and len(word) <= _KEY_MAX
    return AttemptKey(int(uid), int(attempt)) if is_key else None


def is_job_of(comment: str, key: AttemptKey, kept_from: int) -> bool:
    """Return whether a Slurm job with this comment runs an attempt, or was kept for it."""
    comment_key = key_of(comment)
    if comment_key is None:
        return False
    return comment_key == key or (kept_from > 0 and comment_key.uid == key.uid)


def _shorten(text: str) -> str:
    plain = " ".join(_OTHER.sub("_", text).split())
    return plain if len(plain) <= _WORD_MAX else f"{plain[: _WORD_MAX - 3]}..."
