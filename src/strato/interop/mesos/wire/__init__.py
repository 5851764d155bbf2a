"""Encode and decode Mesos' v1 messages: JSON and protobuf by one table, and RecordIO framing.

The rest of the master handles a message as its decoded JSON, a dict: names of fields in snake case, names of enum
values, bytes as base64.

- `messages`: the table, and the conversion from and to JSON and protobuf
- `recordio`: framing of event streams
"""

from strato.interop.mesos.wire.messages import (
    JSON,
    PROTOBUF,
    MalformedMessage,
    MessageType,
    MissingFields,
    NotJson,
    enum_names,
    message,
)
from strato.interop.mesos.wire.recordio import RecordReader, frame

__all__ = [
    "JSON",
    "PROTOBUF",
    "MalformedMessage",
    "MessageType",
    "MissingFields",
    "NotJson",
    "RecordReader",
    "enum_names",
    "frame",
    "message",
]
