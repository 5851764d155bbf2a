"""Volcano's command-line programs (``vcctl``, ``vsub``, …) to the byte, apart from ``strato``'s own verbs.

Scripts parse them: flags, their short forms and defaults, the layout of help, the columns with their padding, the texts
of failures and the exit statuses are those of Volcano 1.14. `cobra` parses command lines, `programs` is the table of
commands; the other modules read the cluster and format the output. ``strato job`` and its siblings share only the
client with this package, so that they may differ from what scripts rely on.
"""
