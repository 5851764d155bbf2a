"""Kubernetes' protobuf encoding of built-in kinds, which clients in Go and other compiled languages use."""

from strato.server.protobuf.envelope import decode, encode, encoder, enveloped, paced, watch_frame
from strato.server.protobuf.wire import delimited

__all__ = ["decode", "delimited", "encode", "encoder", "enveloped", "paced", "watch_frame"]
