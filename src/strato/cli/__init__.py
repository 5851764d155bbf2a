"""The command line: one file per command, each of which parses, calls and prints.

`main` is the entry point; commands are imported only when they are used, so that ``strato --help`` stays fast.
`embedded` puts together the cluster that runs on one machine; `connect` finds the cluster a command talks to.
"""
