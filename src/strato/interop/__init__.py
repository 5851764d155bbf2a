"""Doors of other systems: their files, clients and habits on this engine, one folder each.

A folder here can be deleted without a trace elsewhere but its row in `cli/main.py`, its command's file and its entry
points in `pyproject.toml`. The folders do not know one another.
"""
