"""Kubernetes' protobuf: what stock clients send for built-in types. Answers stay JSON, which those clients accept."""

from strato.server.protobuf.envelope import MEDIA_TYPE, decode

__all__ = ["MEDIA_TYPE", "decode"]
