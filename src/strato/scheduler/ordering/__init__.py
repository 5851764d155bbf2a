"""Which job is asked next, and which need not be asked again."""
