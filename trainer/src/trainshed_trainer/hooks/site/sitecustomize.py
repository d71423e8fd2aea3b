"""Installs the hooks when Python starts, and then runs the next ``sitecustomize`` on the path."""

import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def _run_next_sitecustomize() -> None:
    here = Path(__file__).parent
    search_path = [entry for entry in sys.path if Path(entry).resolve() != here.resolve()]
    spec = PathFinder.find_spec("sitecustomize", search_path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _provide_library() -> None:
    """Load this copy of the library if Python finds no other; its folder stays off ``sys.path``."""
    if "trainshed_trainer" in sys.modules or PathFinder.find_spec("trainshed_trainer"):
        return
    folder = Path(__file__).parent.parent.parent
    spec = spec_from_file_location(
        "trainshed_trainer", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is not None and spec.loader is not None:
        module = sys.modules["trainshed_trainer"] = module_from_spec(spec)
        spec.loader.exec_module(module)


with suppress(Exception):  # the program must start even if the hooks cannot
    _provide_library()
    from trainshed_trainer.hooks import install

    install()
with suppress(ImportError):
    _run_next_sitecustomize()
