"""Logs of a living cluster: written by its scheduler or by somebody who looks on, replayed, and travelled in.

`entries` says what a log holds, `frames` and `segments` how it lies on disk, `journal` and `follow` who writes it,
`replay` who repeats it. Nothing in here decides anything: a replay runs the scheduler's own cycle.
"""
