"""The prices of everything that the server shows in money: the owner's file, else the catalog."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec
from trainshed.planning.prices import OwnPrices, PriceList, own_prices
from trainshed.service.upkeep.reread_file import RereadFile

#: A larger file of prices is refused.
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Makes the price list of a region."""

    own: Callable[[], OwnPrices | None] = field(default=lambda: None)
    """Returns the owner's prices by the current file; None: the catalog's alone."""

    def list_for(self, region: str | None, *, spot: bool = False) -> PriceList:
        """Return the prices of a region now, of spot machines or of others."""
        return PriceList(own=self.own(), region=region, spot=spot)

    def list_for_job(self, spec: JobSpec) -> PriceList:
        """Return the prices of the machines of a job."""
        return self.list_for(spec.region, spot=spec.scheduling.strategy == "SPOT")


def open_prices(file: Path | None) -> PriceSource:
    """Return the prices of a file, which is read again after a change.  Raises UsageFault."""
    if file is None:
        return PriceSource()
    read = partial(_read_own, file)
    return PriceSource(RereadFile(read(), file, read, "prices").current)


def _read_own(file: Path) -> OwnPrices:
    try:
        if file.exists() and not file.is_file():
            raise UsageFault(f"prices.file must be a file, got {file}")
        with file.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise UsageFault(f"prices.file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageFault(f"prices.file {file}: byte {error.start} is not UTF-8 text") from error
    except ValueError as error:
        raise UsageFault(f"prices.file {str(file)!r} cannot be read: {error}") from error
    if len(data) > _BYTES_MAX:
        raise UsageFault(f"prices.file {file} must have at most {_BYTES_MAX} bytes")
    # callers read the source, errors only the administrator
    return replace(own_prices(text, str(file)), source=f"the server's {file.name}")
