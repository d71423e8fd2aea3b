"""``trainshed backup`` and ``trainshed restore``: copy and check a data directory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cli import flags
from trainshed.cli.terminal import print_result
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.visible import visible_line

if TYPE_CHECKING:
    from trainshed.config import Settings

_MIB = 1 << 20

BACKUP_EXAMPLE = """\
  trainshed backup /backup/2026-11-21
  trainshed backup /backup/2026-11-21 --data-dir /srv/trainshed --no-buckets"""
RESTORE_EXAMPLE = """\
  trainshed restore /backup/2026-11-21
  trainshed restore /backup/2026-11-21 --data-dir /srv/trainshed"""


def parser(prog: str) -> flags.Parser:
    """Return the parser."""
    restores = prog.endswith("restore")
    parser = flags.Parser(
        prog,
        summary="Restores a data directory from a backup: checks the backup, moves the existing "
        "database aside, and copies missing files back. The server must be stopped."
        if restores
        else "Copies a data directory to a new folder, whether its server runs or not: the "
        "database as it is at one moment, then the files of its jobs, secrets, settings and "
        "buckets. The copy of the database is checked. SQLite only.",
        example=RESTORE_EXAMPLE if restores else BACKUP_EXAMPLE,
        usage=f"{prog} DIR [flags]",
    )
    parser.add_argument("folder", metavar="DIR", help="The folder of the backup")
    add = flags.adder(parser)
    add("--data-dir DIR", "Data directory; default: TRAINSHED_DATA_DIR")
    add("--database URL", "The server's database; default: as in config.toml")
    if not restores:
        add("--no-buckets", "Leave out the objects of buckets", action="store_true")
    parser.set_defaults(restores=restores)
    flags.add_format(parser)
    return parser


def run(request: flags.Request) -> int:
    """Back up, or restore."""
    from trainshed.config import load_used_settings
    from trainshed.store.base import StoreFault

    args = request.args
    settings = load_used_settings(
        os.environ, {"data_dir": args.data_dir, "database": args.database}
    )
    folder = Path(args.folder)
    try:
        document, lines = (
            _restore(settings, folder)
            if args.restores
            else _back_up(settings, folder, buckets=not args.no_buckets)
        )
    except StoreFault as fault:
        raise EngineFault(str(fault)) from fault
    except OSError as error:
        raise EngineFault(f"{error.filename or args.folder}: {error.strerror or error}") from error
    print_result(args.format, document, "\n".join(lines))
    return 0


def _back_up(
    settings: "Settings", folder: Path, *, buckets: bool
) -> tuple[Mapping[str, object], list[str]]:
    from trainshed.workbench import backups

    if not settings.data_dir.is_dir():
        raise UsageFault(f"there is no data directory {settings.data_dir}; give it with --data-dir")
    backup = backups.make(settings.data_dir, settings.store_url, folder, buckets=buckets)
    omission = "" if buckets else ", without the buckets"
    return backups.as_json(backup), [
        (
            f"{folder} has {backup.jobs} jobs and {backup.files} files, {backup.bytes // _MIB} MiB "
            f"in all{omission}; its database is sound"
        ),
        *map(visible_line, backup.remarks),
        f"check the whole backup with: trainshed doctor --data-dir {folder}",
    ]


def _restore(settings: "Settings", folder: Path) -> tuple[Mapping[str, object], list[str]]:
    from trainshed.workbench import backups

    backup, old_database, remarks = backups.restore(folder, settings.data_dir, settings.store_url)
    lines = [f"{settings.data_dir} has the {backup.jobs} jobs of {backup.time}"]
    if old_database:
        lines.append(f"the old database was moved to {old_database}")
    lines += map(visible_line, remarks)
    lines.append(
        "start the server: attempts that ran at the backup and have ended since count as lost, and "
        "their jobs start again"
    )
    document = {
        **backups.as_json(backup),
        "before": old_database and str(old_database),
        "remarks": remarks,
    }
    return document, lines
