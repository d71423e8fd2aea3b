"""The module that a program could not import, and what helps.

A missing public package means that the job runs in another Python than its user expects.  A missing
module of the user's own does not: there the choice of an interpreter is no advice.
"""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Final

from trainshed.model.known_errors import lines_of_last_error
from trainshed.model.public_modules import PUBLIC_MODULES

#: Only of a name without a dot: the parent of ``trainer.utils`` was imported, so it is there.
_MISSING: Final = re.compile(
    r"(?:ModuleNotFoundError: |ImportError: |^\S*python[\d.]*: )No module named '?(\w+)'?(?:$|[);])"
)


def missing_module(lines: Iterable[str]) -> str:
    """Return the top-level module whose import failed; empty if the program failed otherwise.

    ``lines`` are the last that the program wrote on stderr.
    """
    matches = (_MISSING.search(line) for line in lines_of_last_error(list(lines)))
    return next((match[1] for match in matches if match), "")


def advise(
    module: str, python: str, own_modules: Collection[str], command: Iterable[str] = ()
) -> str:
    """Return one sentence on a missing module, or nothing for a module of the user's own.

    ``python`` is the interpreter that the program ran in, ``own_modules`` the names of the modules
    and packages that lie in the program's folders, ``command`` the program's command line, which
    may name a module of the user's own that does not exist.
    """
    if difflib.get_close_matches(module, own_modules, n=1, cutoff=0.8):
        return ""
    if module in PUBLIC_MODULES:
        return (
            f"the job runs in {python}, which has no {module}; use --python, or [[environment]] in "
            "the server's config.toml, to name a Python that has it, or ask for it in setup.py"
        )
    if any(word.partition(".")[0] == module for word in command):
        return ""
    return (
        f"{python} has no module {module}: if it comes from a package index, ask for it in "
        "setup.py; if it is your own, it is not in the package"
    )
