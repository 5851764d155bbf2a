"""Third-party plugins: from installed packages (entry-point group ``strato.plugins``) or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from strato import thirdparty
from strato.scheduler.framework.plugin import Plugin
from strato.thirdparty import NotLoaded as PluginNotLoaded

__all__ = ["GROUP", "PluginNotLoaded", "forget_installed", "from_file", "installed", "installed_names"]

GROUP: Final = "strato.plugins"


def installed_names() -> list[str]:
    """Return the names of plugins that installed packages offer."""
    return sorted(thirdparty.entry_points(GROUP))


def forget_installed() -> None:
    """Read the installed packages again at the next call."""
    thirdparty.entry_points.cache_clear()


def installed(name: str) -> type[Plugin] | None:
    """Return the plugin an installed package offers under a name, None without one.

    Raises:
        PluginNotLoaded: It cannot be imported or is no plugin.
    """
    return thirdparty.installed(GROUP, name, Plugin)


def from_file(path: Path, name: str) -> type[Plugin]:
    """Return the plugin called ``name`` that a Python file defines.

    Raises:
        PluginNotLoaded: The file cannot be read or run, or defines no such plugin.
    """
    defined = thirdparty.classes_of(path, Plugin)
    for plugin in defined:
        if plugin.name == name:
            return plugin
    names = ", ".join(repr(plugin.name) for plugin in defined if plugin.name)
    raise PluginNotLoaded(f"{path} defines no plugin called {name!r}; it has {names or 'none'}")
