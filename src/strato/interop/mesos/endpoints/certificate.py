"""The certificate of a master's port; files that the user renews are loaded again for new connections."""

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
        """Return the SSL context of a server.

        Raises:
            OSError: A file cannot be read, or (`ssl.SSLError`) certificate and key do not match.
        """
        return server_context(self.certificate, self.key)

    def stamps(self) -> tuple[FileStamp | None, FileStamp | None]:
        """Return stamps of the files, which differ after a file has changed."""
        return FileStamp.of(self.certificate), FileStamp.of(self.key)


class FollowedCertificate:
    """The certificate that a server presents, kept current.

    Raises:
        OSError: The files cannot be used.
    """

    def __init__(self, files: CertificateFiles, clock: Clock) -> None:
        self._files, self._clock = files, clock
        self._stamps = files.stamps()
        self.context = files.context()
        """The server's SSL context; new connections get the certificate loaded last."""

    async def follow(self) -> None:
        """Load changed files until cancelled; unusable ones are tried again after their next change."""
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
            files.context()  # checks the pair first: a failed load would leave half of it in the context
            self.context.load_cert_chain(files.certificate, files.key)
        except OSError as error:
            _log.warning("the certificate is not loaded again: %s: %s", files.certificate, one_line(error))
            return
        _log.info("the certificate is loaded again: %s", files.certificate)
