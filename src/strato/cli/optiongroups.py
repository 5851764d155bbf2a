"""Options that belong together: a command gets one object made from their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import click

Decorator = Callable[[Any], Any]


def option_group(
    name: str,
    read: Callable[..., Any],
    options: Sequence[Decorator],
    *,
    inner: Mapping[str, Decorator] | None = None,
    looks_at: Collection[str] = (),
) -> Decorator:
    """Return a decorator that adds options to a command.

    Args:
        name: The command's argument that gets the object.
        read: Makes the object from the options' values, passed by the names of their variables.
        options: The options in the order of the help.
        inner: Other groups whose objects ``read`` takes too, by argument; their options follow in the help.
        looks_at: Variables of the command's other options that ``read`` gets as well.
    """
    groups = dict(inner or {})

    def decorate(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def wrapper(*args: Any, **given: Any) -> Any:
            values = {variable: given.pop(variable) for variable in taken}
            shown = {variable: given[variable] for variable in looks_at}
            return command(*args, **{name: read(**values, **shown)}, **given)

        decorated: Any = wrapper
        for group in groups.values():
            decorated = group(decorated)
        others = len(getattr(decorated, "__click_params__", ()))
        for option in reversed(options):
            decorated = option(decorated)
        own: list[click.Parameter] = decorated.__click_params__[others:]
        taken = [*(one.name for one in own if one.expose_value), *groups]
        return decorated

    return decorate
