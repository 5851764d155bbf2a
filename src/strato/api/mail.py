"""The annotations for mail about a job: ``strato.dev/mail``, the addresses, and ``strato.dev/mail-type``. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

MAIL: Final = "strato.dev/mail"
"""Annotation of a job: addresses, joined by commas."""
MAIL_TYPE: Final = "strato.dev/mail-type"
"""Annotation of a job: the wanted types of mail, joined by commas; all types if it is missing."""
MAIL_STATE: Final = "strato.dev/mail-state"
"""Annotation that the controller writes: `ACCEPTED`, then the types that were sent, or why none is sent."""
ACCEPTED: Final = "accepted"

_ADDRESS = re.compile(r"[^\s@,;<>\"()\x00-\x1f\x7f]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


_MOST_ADDRESSES = 100
_MOST_WORDS = 20


class MailType(StrEnum):
    """The occasion of a mail."""

    BEGIN = "begin"
    END = "end"
    """The job has ended, in whatever way."""
    FAIL = "fail"


_SLURM = {"all": tuple(MailType), "none": (), "time_limit": (MailType.FAIL,)}
"""Slurm's words for several of our types, or for a part of one."""


def parse_addresses(text: str) -> tuple[str, ...]:
    """Read addresses.

    Raises:
        ValueError: A text is no address; the message says which.
    """
    if text.count(",") >= _MOST_ADDRESSES:
        raise ValueError(f"more than {_MOST_ADDRESSES} mail addresses; write to a list")
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    bad = [address for address in found if not _ADDRESS.fullmatch(address) or not address.isascii()]
    if bad or not found:
        raise ValueError(f"{(bad or [text])[0]!r} is no mail address; write for example ann@example.org")
    return found


def parse_types(text: str) -> tuple[MailType, ...]:
    """Read types of mail; accepts Slurm's words too, in upper or lower case.

    Raises:
        ValueError: A word is unknown; the message says which.
    """
    found: dict[MailType, None] = {}
    if text.count(",") >= _MOST_WORDS:
        raise ValueError(f"more than {_MOST_WORDS} words")
    for word in text.lower().split(","):
        word = word.strip()
        if word not in _SLURM and word not in list(MailType):
            raise ValueError(f"{word!r} is not one of {', '.join((*MailType, *_SLURM))}")
        found.update(dict.fromkeys(_SLURM.get(word) or ((MailType(word),) if word not in _SLURM else ())))
    return tuple(found)
