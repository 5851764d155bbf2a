"""Pages by which others verify tokens of service accounts: OpenID Connect Discovery 1.0 and the keys (RFC 7517)."""

from __future__ import annotations

import re
from typing import Protocol

from strato.api.wire import Request, Response
from strato.server.bootstrap import ISSUER_PATHS
from strato.server.preparation import encode
from strato.server.rest.tokens import API_AUDIENCE

_CONFIGURATION, _KEYS = ISSUER_PATHS
_HOST = re.compile(r"[0-9A-Za-z.:\[\]-]{1,300}")
_MAX_AGE = {"Cache-Control": "public, max-age=3600"}


class Keys(Protocol):
    """Knows what tokens are verified with."""

    def public_keys(self) -> list[dict[str, str]]:
        """Return JSON Web Keys."""


class IssuerPages:
    """Serves both documents; roles say to whom: service accounts, as in Kubernetes."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def handle(self, request: Request) -> Response | None:
        """Answer, or None when the path is not its own."""
        if request.path == _KEYS:
            return Response(200, encode({"keys": self._keys.public_keys()}), "application/jwk-set+json", _MAX_AGE)
        if request.path != _CONFIGURATION:
            return None
        host = request.headers.get("host", "")
        # The keys are where the asker has found this: pods and the machine itself reach the server by other names.
        place = f"https://{host}" if _HOST.fullmatch(host) else API_AUDIENCE
        document = {
            "issuer": API_AUDIENCE,
            "jwks_uri": place + _KEYS,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return Response(200, encode(document), "application/json", _MAX_AGE)
