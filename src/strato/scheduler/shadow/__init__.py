"""A second policy beside the one in force: it decides on the same view, and nothing of it is applied.

Belongs here: what is put back before it decides (`rewind`), how two plans differ (`difference`), the process of its own
in which it decides (`child`), how much it may cost (`budget`), what is known of the differences (`findings`) and where
they are published (`publishing`). Does not: the cycle, which is the one in force (`strato.scheduler.cycle`).
"""
