"""What the store raises."""


class AlreadyThere(Exception):
    """A job of this project has the id already."""


class StaleEtag(Exception):
    """The row has changed since the caller read it."""


class StoreFault(Exception):
    """The database cannot be used now; the message is for the user."""
