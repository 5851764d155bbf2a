"""The arrays of a network, and their element types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int = int | np.int64
"""A number inside a kernel: compiled code does not tell Python's from NumPy's."""


class Arrays(NamedTuple):
    """The arrays of a network as the kernels take them (views; `strato.mincost.network` says what they mean)."""

    tail: Int32s
    head: Int32s
    cost: Int64s
    capacity: Int64s
    flow: Int64s
    next_in: Int32s
    prev_in: Int32s
    row_start: Int64s
    row_length: Int64s
    first_in: Int32s
    last_in: Int32s
    supply: Int64s
    potential: Int64s
