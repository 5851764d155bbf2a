"""`pictures_of`: all pictures of an experiment, in the order of the report's page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strato.errors import StateError
from strato.sim.pictures.canvas import Picture
from strato.sim.pictures.comparing import comparing_pictures, eviction_picture
from strato.sim.pictures.digest import RunDigest
from strato.sim.pictures.fairness import distance_picture, share_picture
from strato.sim.pictures.fullness import fullness_pictures
from strato.sim.pictures.groups import groups_of
from strato.sim.pictures.rows import row_pictures
from strato.sim.pictures.waits import wait_pictures

MOST_GROUPS: Final = 12
"""Most combinations of policy and variant that are drawn. The table has all, and sweeps have pictures of their own."""
_NAME: Final = re.compile(r"[a-z0-9-]+")


def pictures_of(digests: Sequence[RunDigest]) -> list[Picture]:
    """Return the pictures of an experiment's runs; empty without runs."""
    groups = groups_of(digests)[:MOST_GROUPS]
    if not groups:
        return []
    evictions = eviction_picture(groups)
    return [
        *comparing_pictures(groups),
        *wait_pictures(groups),
        *fullness_pictures(groups),
        distance_picture(groups),
        *(share_picture(group, number) for number, group in enumerate(groups)),
        *([] if evictions is None else [evictions]),
        *(picture for number, group in enumerate(groups) for picture in row_pictures(group, number)),
    ]


def write_pictures(pictures: Sequence[Picture], folder: Path) -> None:
    """Write each picture as SVG and PNG.

    Raises:
        StateError: A picture cannot be written.
        UsageError: matplotlib is not installed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for picture in pictures:
            assert _NAME.fullmatch(picture.name)
            (folder / f"{picture.name}.svg").write_text(picture.svg())
            (folder / f"{picture.name}.png").write_bytes(picture.png())
    except OSError as error:
        raise StateError(f"pictures cannot be written to {folder}: {error.strerror}") from error
