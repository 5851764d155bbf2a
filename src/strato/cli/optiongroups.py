"""Options that belong together: a command takes what they mean as one argument."""

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
        name: The command's argument.
        read: Makes it of the options' values, each by the name of its variable.
        options: In the order of the help.
        inner: Groups, by their arguments, that ``read`` takes too; their options follow.
        looks_at: Variables of other options that ``read`` is shown and the command keeps.
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
