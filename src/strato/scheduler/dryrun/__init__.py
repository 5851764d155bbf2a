"""The engine on copies of a state: the dry run, what holds something back, and what would start it."""
