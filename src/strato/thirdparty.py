"""Third-party code, loaded from installed packages (by an entry-point group) or from a file.

Each load of a file runs it again, as a new module. So an edited file takes effect without a restart, and objects of the
previous version that are still in use keep their code.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from strato.errors import StratoError

T = TypeVar("T")


class NotLoaded(StratoError):
    """The code cannot be used; the message says why, with the line."""


@functools.cache
def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by name; cached, because scanning the installed packages is slow."""
    return {found.name: found for found in importlib.metadata.entry_points(group=group)}


def installed(group: str, name: str, base: type[T]) -> type[T] | None:
    """Return the class that an installed package offers under a name, None if none does.

    Raises:
        NotLoaded: The class cannot be imported, or is not derived from ``base``.
    """
    point = entry_points(group).get(name)
    if point is None:
        return None
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise NotLoaded(f"{point.value} cannot be imported: {_error_text(error)}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise NotLoaded(f"{point.value} is not a subclass of {base.__module__.rpartition('.')[0]}.{base.__name__}")
    return found


def classes_of(path: Path, base: type[T]) -> list[type[T]]:
    """Run a Python file and return the classes derived from ``base`` that it defines.

    Raises:
        NotLoaded: The file cannot be read or run.
    """
    try:
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    except (OSError, ValueError, SyntaxError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise NotLoaded(f"{path}{line}: {getattr(error, 'strerror', None) or error}") from error
    module = ModuleType(f"strato_plugin_file.{path.stem}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look their module up while it runs
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise NotLoaded(f"{path}: {_error_text(error)}") from error
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
    return [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, base) and v is not base]


def _error_text(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    line = f" (line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{line}"
