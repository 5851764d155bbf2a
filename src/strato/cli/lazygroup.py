"""`LazyGroup`: a group whose commands are imported when they are called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is called.

    Args:
        table: One line of help by command name, in the order of the help; kept here so that listing imports nothing.
        load: Imports a command by one of these names, or by an alias.
        aliases: Other names, which the help leaves out.
        hint: Returns a hint for the typed words when they are no command; if empty, the nearest name is suggested.
    """

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, str],
        load: Callable[[str], object],
        aliases: Collection[str] = (),
        hint: Callable[[list[str]], str] = lambda _: "",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._table, self._load, self._aliases, self._hint = table, load, aliases, hint

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names.

        Raises:
            click.UsageError: No command has that name.
        """
        word = args[0]
        if self._is_known(word) or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {word!r}.{self._hint(args) or self._nearest(word)}", ctx)

    def _is_known(self, name: str) -> bool:
        return name in self._table or name in self._aliases

    def _nearest(self, word: str) -> str:
        from difflib import get_close_matches  # imported late, as only errors need it

        near = get_close_matches(word, self._table)
        return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if not self._is_known(cmd_name):
            return None
        command = self._load(cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
