"""A dict of cached values with a maximum size."""

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedDict(dict[_Key, _Value]):
    """A dict that drops all its entries before a new key makes it larger than ``size_max``."""

    def __init__(self, size_max: int) -> None:
        super().__init__()
        self._size_max = size_max

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if len(self) >= self._size_max and key not in self:
            self.clear()
        super().__setitem__(key, value)
