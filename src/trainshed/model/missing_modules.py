"""The module that a program could not import, and the remedy.

A missing public package means that the job runs in another Python than its user expects, so the
advice is to choose another interpreter.  A missing module of the user's own does not mean this.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from trainshed.model.advice import lines_of_last_error
from trainshed.model.public_modules import NAMESPACES, PUBLIC_MODULES

_MISSING: Final = re.compile(
    r"(?:ModuleNotFoundError: |ImportError: |^\S*python[\d.]*: )"
    r"No module named '?([\w.]+)'?(?:$|[);])"
)


def missing_module(lines: Iterable[str]) -> str:
    """Return the module whose import failed; empty if the program failed otherwise.

    It is also empty for ``trainer.utils``: its parent was imported, so the interpreter is not the
    cause, except for packages that share their parent.  ``lines`` are the last lines on stderr.
    """
    matches = (_MISSING.search(line) for line in lines_of_last_error(list(lines)))
    name = next((match[1] for match in matches if match), "")
    parent, dot, _ = name.partition(".")
    return name if not dot or parent in NAMESPACES else ""


def advise(
    module: str, python: str, own_modules: Collection[str], command: Iterable[str] = ()
) -> str:
    """Return one sentence on a missing module; empty for a misspelled module of the user's own.

    ``python`` is the interpreter that the program ran in.  ``own_modules`` are the names of the
    modules and packages in the program's folders.  ``command`` is the program's command line, which
    may name a module that does not exist.
    """
    if difflib.get_close_matches(module, own_modules, n=1, cutoff=0.8):
        return ""
    if module.partition(".")[0] in PUBLIC_MODULES:
        return (
            f"the job runs in {python}, which has no {module}; use --python, or [[environment]] in "
            "config.toml, to name a Python that has it, or ask for it in setup.py"
        )
    if any(word.partition(".")[0] == module for word in command):
        return ""
    return (
        f"{python} has no module {module}: if it comes from a package index, ask for it in "
        "setup.py; if it is your own, it is not in the package"
    )


_NOT_OPENED: Final = re.compile(r"can't open file '([^']+)': \[Errno 2\]")


def advise_program(lines: Iterable[str]) -> str:
    """Return one sentence on a program file that Python could not open; empty for another error."""
    matches = (_NOT_OPENED.search(line) for line in lines)
    path = next((match[1] for match in matches if match), "")
    if not path:
        return ""
    return (
        f"the replica has no file {path.rpartition('/')[2]}: it has the files of an image only "
        "where a container runtime runs the image; send the program as a Python package"
    )


#: Python's messages about the module after ``-m``: it does not exist, its parent does not, or it is
#: a package without ``__main__``.
_NOT_RUN: Final = (
    r"(?:No module named '?{0}'?(?:\.__main__)?(?:$|[);])"
    r"|Error while finding module specification for '{0}')"
)

#: The number of existing modules that a message names.
_NAMED_MAX: Final = 5


def misnamed_module(lines: Iterable[str], command: Sequence[str]) -> str:
    """Return the module after ``-m`` in a command if Python could not find it; else nothing.

    A missing public package is another error (``advise``).
    """
    pairs = zip(command, command[1:])
    module = next((word for flag, word in pairs if flag == "-m"), "")
    if not module or module.partition(".")[0] in PUBLIC_MODULES:
        return ""
    pattern = _NOT_RUN.format(re.escape(module))
    return module if any(re.search(pattern, line) for line in lines) else ""


def advise_name(module: str, modules: Collection[str]) -> str:
    """Return one sentence on a module that is not in the package, with a module that is.

    ``modules`` are the dotted names of the modules in the program's folders.
    """
    names = sorted(modules)
    if not names:
        return f"no folder of the program has a module {module}; pass the package that has it"
    near = _nearest_module(module, names)
    if near:
        return f"the package has no module {module}; did you mean {near}?"
    return f"the package has no module {module}; it has {', '.join(names[:_NAMED_MAX])}"


def _nearest_module(module: str, names: Sequence[str]) -> str:
    """Return a submodule, a similar name or the same last part, in this order; else nothing."""
    below = [name for name in names if name.startswith(f"{module}.")]
    usual = [name for name in below if name.rpartition(".")[2] in _USUAL]
    near = difflib.get_close_matches(module, names, n=1, cutoff=0.75)
    last = module.rpartition(".")[2]
    same_last = (name for name in names if name.rpartition(".")[2] == last)
    return next(iter((*usual, *below, *near, *same_last)), "")


#: The usual names of a trainer's main module.
_USUAL: Final = frozenset({"task", "train", "trainer", "main"})
