"""Options of the mail about jobs."""

from __future__ import annotations

import re

import click
import msgspec

from strato.api.mail import parse_addresses
from strato.cli.optiongroups import option_group


class MailOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The server that mail about jobs is sent to, and its sender."""

    smtp_server: str = ""
    """``HOST:PORT``; empty sends no mail."""
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


mail_options = option_group(
    "mail",
    MailOptions,
    (
        click.option(
            "--smtp-server",
            default="",
            type=_ServerType(),
            metavar="HOST:PORT",
            help="Relay that takes the mail of 'job run --mail'; without it none is sent.",
        ),
        click.option(
            "--mail-from",
            default="",
            type=ADDRESSES,
            metavar="ADDRESS",
            help="Who it is from; strato@HOSTNAME without.",
        ),
    ),
)
"""Adds the options to a command, which takes them as ``mail``."""
