"""Who gets mail about a job, and when: the annotations ``strato.dev/mail`` and ``strato.dev/mail-type``. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

MAIL: Final = "strato.dev/mail"
"""On a job: addresses, joined by commas."""
MAIL_TYPE: Final = "strato.dev/mail-type"
"""Of what they are told, joined by commas; everything when it is missing."""
MAIL_STATE: Final = "strato.dev/mail-state"
"""Written by the controller: `ACCEPTED`, then what was sent, or why nothing is."""
ACCEPTED: Final = "accepted"

_ADDRESS = re.compile(r"[^\s@,;<>\"()\x00-\x1f\x7f]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


_MOST_ADDRESSES = 100
_MOST_WORDS = 20


class MailType(StrEnum):
    """What mail is about."""

    BEGIN = "begin"
    END = "end"
    """However it ended."""
    FAIL = "fail"


_SLURM = {"all": tuple(MailType), "none": (), "time_limit": (MailType.FAIL,)}
"""Words of Slurm's that mean several, or less."""


def parse_addresses(text: str) -> tuple[str, ...]:
    """Read addresses.

    Raises:
        ValueError: Says which is none.
    """
    if text.count(",") >= _MOST_ADDRESSES:
        raise ValueError(f"more than {_MOST_ADDRESSES} mail addresses; write to a list")
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    bad = [address for address in found if not _ADDRESS.fullmatch(address) or not address.isascii()]
    if bad or not found:
        raise ValueError(f"{(bad or [text])[0]!r} is no mail address; write for example ann@example.org")
    return found


def parse_types(text: str) -> tuple[MailType, ...]:
    """Read what mail is wanted about; Slurm's words too, in either case.

    Raises:
        ValueError: Says which word is unknown.
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
