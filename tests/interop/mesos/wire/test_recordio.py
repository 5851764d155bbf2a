"""RecordIO both ways, in any pieces, and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.interop.mesos.wire import RecordReader, frame
from strato.interop.mesos.wire.recordio import BrokenRecord


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_records_arrive_whole_in_any_pieces(records: list[bytes], size: int) -> None:
    data = b"".join(map(frame, records))
    reader, found = RecordReader(), []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    assert found == records
    assert reader.is_empty


@pytest.mark.parametrize("data", [b"x\n", b"-1\n", b"\n", b"9" * 21, b"12 \n", b"2\nab\n", b"101\n"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenRecord):
        RecordReader(most_bytes=100).feed(data)
