"""OpenAPI documents of all kinds that the server serves."""

from strato.server.openapi.service import OpenApi

__all__ = ["OpenApi"]
