"""Options of the mail about jobs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from strato.api.mail import parse_addresses

F = TypeVar("F", bound=Callable[..., Any])


class MailOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes mail about jobs, and who it is from."""

    smtp_server: str = ""
    """``HOST:PORT``; empty sends none."""
    mail_from: str = ""


class _ServerType(click.ParamType[str]):
    name = "host:port"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        found = re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", value)
        if value and (found is None or not 0 < int(found[2] or 25) < 65536):
            self.fail(f"{value!r} is no HOST:PORT; write for example mail.example.org:25", param, ctx)
        return value


class _AddressType(click.ParamType[str]):
    name = "address"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text."""
        try:
            return ",".join(parse_addresses(value)) if value else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


ADDRESSES = _AddressType()


def mail_options(command: F) -> F:
    """Add the options to a command, which takes them as ``mail``."""

    @functools.wraps(command)
    def wrapper(*args: Any, smtp_server: str, mail_from: str, **others: Any) -> Any:
        return command(*args, mail=MailOptions(smtp_server=smtp_server, mail_from=mail_from), **others)

    for option in reversed(_OPTIONS):
        option(wrapper)
    return wrapper  # type: ignore[return-value]  # click calls it with the options' names


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--smtp-server",
        default="",
        type=_ServerType(),
        metavar="HOST:PORT",
        help="Relay that takes the mail of 'job run --mail'; without it none is sent.",
    ),
    click.option(
        "--mail-from", default="", type=ADDRESSES, metavar="ADDRESS", help="Who it is from; strato@HOSTNAME without."
    ),
)
