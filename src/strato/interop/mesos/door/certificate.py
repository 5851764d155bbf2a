"""The certificate of a master's port, followed: files that are renewed elsewhere are shown to new connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from strato.clock import Clock
from strato.errors import one_line
from strato.filestamps import FileStamp
from strato.http.tls import server_context

_LOOK_SECONDS = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files of a certificate chain and its key."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return what a server needs.

        Raises:
            OSError: A file cannot be read, or they do not belong together; `ssl.SSLError` is one.
        """
        return server_context(self.certificate, self.key)

    def stamps(self) -> tuple[FileStamp | None, FileStamp | None]:
        """Return what changes when a file does."""
        return FileStamp.of(self.certificate), FileStamp.of(self.key)


class FollowedCertificate:
    """What a server shows.

    Raises:
        OSError: The files cannot be used.
    """

    def __init__(self, files: CertificateFiles, clock: Clock) -> None:
        self._files, self._clock = files, clock
        self._stamps = files.stamps()
        self.context = files.context()
        """Of the server; new connections are shown what was loaded last."""

    async def follow(self) -> None:
        """Load files that have changed, until cancelled; ones that cannot be used are tried when they change again."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Load the files if they have changed."""
        files = self._files
        try:
            stamps = files.stamps()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            files.context()  # half of a pair that does not belong together would stay loaded
            self.context.load_cert_chain(files.certificate, files.key)
        except OSError as error:
            _log.warning("the certificate is not loaded again: %s: %s", files.certificate, one_line(error))
            return
        _log.info("the certificate is loaded again: %s", files.certificate)
