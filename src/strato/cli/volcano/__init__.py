"""Volcano's command-line programs (``vcctl``, ``vsub``, …) to the byte, apart from ``strato``'s own verbs.

Scripts parse them: flags, their short forms and defaults, the layout of help, the columns with their padding, the texts
of failures and the exit statuses are those of Volcano 1.14. `cobra` is what a command line means, `programs` the table
of commands; the other modules ask the cluster and lay out the answer. ``strato job`` and its siblings share only the
client with this room, so that they can be better than what scripts rely on.
"""
