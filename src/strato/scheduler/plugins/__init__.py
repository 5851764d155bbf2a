"""Plugins, one file each; some share a file beside theirs."""
