"""The command line: one file per command, each of which parses, calls and prints.

`main` is the entry point; commands are imported only when they are used, so that ``strato --help`` stays fast.
`embedded` is the composition root of the laptop world, `connect` finds the cluster a command talks to.
"""
