"""The flag ``--prior`` as labels of the job."""

from collections.abc import Iterator, Sequence
from typing import Final

from trainshed.model.faults import UsageFault

_FORM: Final = "NAME=VALUE, NAME=VALUE:narrow or NAME=VALUE:wide"


def read_priors(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the value of each label.  Raises UsageFault for a word of another form."""
    from trainshed.model.study_priors import WIDTH_ENDINGS, prior_key, prior_number, prior_word

    for word in words:
        name, _, stated = word.partition("=")
        value, ending = stated, ""
        head, _, width = stated.rpartition(":")
        if f"_{width}" in WIDTH_ENDINGS:  # any other colon belongs to the value
            value, ending = head, f"_{width}"
        if not name or not value:
            raise UsageFault(f"--prior must be {_FORM}, got {word}")
        yield prior_key(name), f"{prior_number(value) or prior_word(value)}{ending}"
