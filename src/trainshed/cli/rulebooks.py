"""From the catalog flags of a command line to what a job is judged by."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from trainshed.admission import Scope
from trainshed.service.judging import Rulebook


def rulebook_of(args: argparse.Namespace) -> Rulebook:
    """The rulebook; the day to judge by is the flag's, or the clock's."""
    return Rulebook(
        today=args.date or datetime.now(tz=UTC).date(),
        edition=args.edition,
        zone_snapshot=args.zone_snapshot,
        overlays=tuple(map(Path, args.overlay)),
        scope=Scope(args.scope) if args.scope else None,
    )
