"""Stands in for the package of this name, which does not compile on newer Pythons: the same calls, on httptools."""
