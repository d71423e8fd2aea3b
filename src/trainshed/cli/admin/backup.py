"""``trainshed backup`` and ``trainshed restore``: a data directory, whole and checked."""

import os
from pathlib import Path

from trainshed.cli.flags import Request
from trainshed.cli.terminal import answer
from trainshed.config import Settings, load_used_settings
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.visible import visible_line
from trainshed.store.base import StoreFault
from trainshed.workbench import backups

_MIB = 1 << 20


def run(request: Request) -> int:
    """Back up, or put a backup back."""
    args = request.args
    flags = {"data_dir": args.data_dir, "database": args.database}
    settings = load_used_settings(os.environ, flags)
    try:
        return (_restore if args.restores else _back_up)(request, settings, Path(args.folder))
    except StoreFault as fault:
        raise EngineFault(str(fault)) from fault
    except OSError as error:
        raise EngineFault(f"{error.filename or args.folder}: {error.strerror or error}") from error


def _back_up(request: Request, settings: Settings, folder: Path) -> int:
    if not settings.data_dir.is_dir():
        raise UsageFault(f"there is no data directory {settings.data_dir}; --data-dir names one")
    buckets = not request.args.no_buckets
    backup = backups.make(settings.data_dir, settings.store_url, folder, buckets=buckets)
    omission = "" if buckets else ", without the buckets"
    lines = [
        (
            f"{folder} has {backup.jobs} jobs and {backup.files} files, {backup.bytes // _MIB} MiB "
            f"in all{omission}; its database is sound"
        ),
        *map(visible_line, backup.remarks),
        f"to check all of it: trainshed doctor --data-dir {folder}",
    ]
    answer(request.args.format, backups.as_json(backup), "\n".join(lines))
    return 0


def _restore(request: Request, settings: Settings, folder: Path) -> int:
    backup, old_database, remarks = backups.restore(folder, settings.data_dir, settings.store_url)
    lines = [f"{settings.data_dir} has the {backup.jobs} jobs of {backup.time}"]
    if old_database:
        lines.append(f"the database that was there is {old_database} now")
    lines += map(visible_line, remarks)
    lines.append(
        "start the server: jobs that ran then and run no more count as lost, and start again"
    )
    document = {
        **backups.as_json(backup),
        "before": old_database and str(old_database),
        "remarks": remarks,
    }
    answer(request.args.format, document, "\n".join(lines))
    return 0
