"""The admission configuration's file, followed while the webhook runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from strato.admission.chain import ChainOptions
from strato.admission.groups import load_groups, read_groups
from strato.admission.pods import ResourceGroup
from strato.errors import InvalidInput, one_line

_log = logging.getLogger(__name__)


class GroupsFile:
    """The admission configuration's file, read again when its content changes; a wrong change is logged and ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text: str | None = None

    def first(self) -> tuple[ResourceGroup, ...]:
        """Read the file.

        Raises:
            InvalidInput: It cannot be read, or groups in it are wrong.
        """
        groups = load_groups(self._path)
        self._text = self._path.read_text()
        return groups

    def newer(self, options: ChainOptions) -> ChainOptions | None:
        """Return ``options`` with the groups of a file that has changed; None when it has not or is wrong."""
        try:
            text = self._path.read_text()
            if text == self._text:
                return None
            self._text = text
            return replace(options, resource_groups=read_groups(text, str(self._path)))
        except (OSError, UnicodeDecodeError, InvalidInput) as error:
            _log.warning("the admission configuration is not reloaded: %s", one_line(error))
            return None
