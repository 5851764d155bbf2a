"""Plugins that are not ours: from installed packages (entry-point group ``strato.plugins``) or from a file.

A file is run anew whenever it is loaded, under a module name of its own, so that an edited file takes effect without a
restart and the version before stays as it was in sessions that still use it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from strato.scheduler.framework.plugin import Plugin

GROUP: Final = "strato.plugins"


class PluginNotLoaded(Exception):
    """A plugin's code cannot be used; the message says why, with the line."""


def installed_names() -> list[str]:
    """Return the names of plugins that installed packages offer."""
    return sorted(_entry_points())


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {found.name: found for found in importlib.metadata.entry_points(group=GROUP)}


def forget_installed() -> None:
    """Look at the installed packages again when asked next."""
    _entry_points.cache_clear()


def installed(name: str) -> type[Plugin] | None:
    """Return the plugin an installed package offers under a name, None without one.

    Raises:
        PluginNotLoaded: It cannot be imported or is no plugin.
    """
    found = _entry_points().get(name)
    if found is None:
        return None
    try:
        plugin = found.load()
    except (Exception, SystemExit) as error:
        raise PluginNotLoaded(f"{found.value} cannot be imported: {_error_text(error)}") from error
    return _plugin(plugin, found.value)


def from_file(path: Path, name: str) -> type[Plugin]:
    """Return the plugin called ``name`` that a Python file defines.

    Raises:
        PluginNotLoaded: The file cannot be read or run, or defines no such plugin.
    """
    try:
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    except (OSError, ValueError, SyntaxError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PluginNotLoaded(f"{path}{line}: {getattr(error, 'strerror', None) or error}") from error
    module = ModuleType(f"strato_plugin_file.{path.stem}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look their module up while it runs
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise PluginNotLoaded(f"{path}: {_error_text(error)}") from error
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
    defined = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Plugin) and v is not Plugin]
    for plugin in defined:
        if plugin.name == name:
            return plugin
    names = ", ".join(repr(plugin.name) for plugin in defined if plugin.name)
    raise PluginNotLoaded(f"{path} defines no plugin called {name!r}; it has {names or 'none'}")


def _plugin(found: object, where: str) -> type[Plugin]:
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginNotLoaded(f"{where} is not a subclass of strato.scheduler.framework.Plugin")
    return found


def _error_text(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    line = f" (line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{line}"
