"""A trainer that looks for words wherever it can look, and writes where it met them.

It is told each word in two parts, so that it does not meet what it was told.
"""

import argparse
import contextlib
import json
import os
import stat
from pathlib import Path

#: Files that are read, and how far; entries that are looked at below a place.
BYTES_MAX = 1 << 20
ENTRIES_MAX = 50_000
#: The machine's own programs, which no job changes.
LEFT_OUT = {"/usr", "/lib", "/boot", "/snap"}
#: What the kernel shows, also in the root folder of a job: a read of ``kmsg`` may never end.
KERNEL = ("/proc", "/sys")


class Search:
    """What was met so far."""

    def __init__(self, words, since):
        self._words = words
        self._since = since
        self.met = {word: [] for word in words}
        self.looked_at = dict.fromkeys(("files", "processes"), 0)

    def look(self, place, data):
        """Note each word that stands in the data."""
        for word in self._words:
            if word.encode() in data:
                self.met[word].append(place)

    def files(self, top):
        """All below a place, what lies near first; only what is new is read."""
        folders, entries = [top], 0
        for folder in folders:
            for entry in entries_of(folder):
                entries += 1
                if entries > ENTRIES_MAX:
                    return
                self.look(f"name {entry.path}", os.fsencode(entry.name))
                if not entry.is_dir(follow_symlinks=False):
                    self._file(entry)
                elif entry.path not in LEFT_OUT and not entry.path.endswith(KERNEL):
                    folders.append(entry.path)

    def _file(self, entry):
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            is_new = max(status.st_mtime, status.st_ctime) >= self._since
            if stat.S_ISREG(status.st_mode) and is_new:
                self.look(f"file {entry.path}", head(entry.path))
                self.looked_at["files"] += 1

    def processes(self):
        """What /proc shows of each."""
        for name in filter(str.isdecimal, (path.name for path in Path("/proc").iterdir())):
            self.looked_at["processes"] += 1
            for part in ("cmdline", "environ", "comm", "mountinfo"):
                with contextlib.suppress(OSError):
                    self.look(f"{part} {name}", head(f"/proc/{name}/{part}"))

    def environment(self):
        """Its own variables."""
        self.look("environment", repr(dict(os.environ)).encode())


def head(path):
    with Path(path).open("rb") as file:
        return file.read(BYTES_MAX)


def entries_of(folder):
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def folder(uri):
    return Path(uri.replace("gs:/", os.environ["TRAINSHED_BUCKETS"], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", type=folder)
    parser.add_argument("--since", type=float)
    parser.add_argument("--word", action="append", nargs=2)
    parser.add_argument("--place", action="append")
    options = parser.parse_args()
    words = ["".join(parts) for parts in options.word]
    Path("own").write_text(words[-1])
    search = Search(words, options.since)
    search.environment()
    search.processes()
    for place in [str(Path.cwd()), str(options.job_dir.parent), *options.place]:
        search.files(place)
    options.job_dir.mkdir(parents=True, exist_ok=True)
    report = {"met": search.met, "looked_at": search.looked_at}
    (options.job_dir / "told.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
