"""Compatibility with other systems: their files, protocols and command lines on this engine, one folder each.

To remove a folder, delete it with its row in `cli/main.py`, its command's file and its entry points in
`pyproject.toml`; no other code refers to it. The folders do not import one another.
"""
