"""Exceptions of the store."""


class AlreadyThere(Exception):
    """Another job of the project already has this id."""


class StaleEtag(Exception):
    """The row has changed since the caller read it."""


class StoreFault(Exception):
    """The database cannot be used now; the message is for the administrator."""

    def __init__(self, message: str, *, answer: str = "") -> None:
        """``answer`` is the message for callers of the API; empty: the default message."""
        super().__init__(message)
        self.answer = answer
