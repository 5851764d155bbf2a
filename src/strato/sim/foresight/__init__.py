"""What a living cluster will do: run forward from a snapshot, with changes (`whatif`) or without (`when`).

Everything is decided by the scheduler's own cycle on a copy; nothing in here writes to a cluster.
"""
