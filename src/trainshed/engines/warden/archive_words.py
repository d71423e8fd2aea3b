"""The command that runs the archive of launchers and wardens.

``python ARCHIVE`` would run it too, by runpy, whose modules stay in memory as long as the attempt.
"""

from typing import Final

#: Runs the archive that the next argument names.
CODE: Final = (
    "import sys, zipimport; del sys.argv[0]; sys.path.insert(0, sys.argv[0]); "
    'exec(zipimport.zipimporter(sys.argv[0]).get_code("__main__"), {"__name__": "__main__"})'
)


def archive_words(python: str, archive: str) -> tuple[str, ...]:
    """Compose the command; the arguments of the archive follow it."""
    return (python, "-I", "-S", "-c", CODE, archive)
