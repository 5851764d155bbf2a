"""Mesos' v1 messages on the wire: JSON and protobuf by one table, and RecordIO around them.

Everything behind this room sees a message as the dict that its JSON is: names of fields in snake case, names of enum
values, bytes as base64.

- `messages`: the table, JSON and protobuf in and out
- `recordio`: the frames of event streams
"""

from strato.interop.mesos.wire.messages import (
    JSON,
    PROTOBUF,
    MalformedMessage,
    Message,
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
    "Message",
    "MissingFields",
    "NotJson",
    "RecordReader",
    "enum_names",
    "frame",
    "message",
]
