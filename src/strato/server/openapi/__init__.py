"""OpenAPI documents of everything the server serves."""

from strato.server.openapi.service import OpenApi

__all__ = ["OpenApi"]
