"""The documents by which other services verify tokens of service accounts: OpenID Connect Discovery 1.0, RFC 7517."""

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
    """Has the keys that verify tokens."""

    def public_keys(self) -> list[dict[str, str]]:
        """Return JSON Web Keys."""


class IssuerPages:
    """Serves both documents; by default roles allow only service accounts to read them, as in Kubernetes."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def handle(self, request: Request) -> Response | None:
        """Answer a request; None if its path is not one of the two."""
        if request.path == _KEYS:
            return Response(200, encode({"keys": self._keys.public_keys()}), "application/jwk-set+json", _MAX_AGE)
        if request.path != _CONFIGURATION:
            return None
        host = request.headers.get("host", "")
        # the URL of the keys has the host of this request, as pods and the machine itself use different names
        place = f"https://{host}" if _HOST.fullmatch(host) else API_AUDIENCE
        document = {
            "issuer": API_AUDIENCE,
            "jwks_uri": place + _KEYS,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return Response(200, encode(document), "application/json", _MAX_AGE)
