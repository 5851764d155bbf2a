"""Kubernetes' protobuf, of built-in kinds: what stock clients of compiled languages send, and want to be answered."""

from strato.server.protobuf.envelope import decode, encode, encoder, enveloped, paced, watch_frame
from strato.server.protobuf.wire import delimited

__all__ = ["decode", "delimited", "encode", "encoder", "enveloped", "paced", "watch_frame"]
