"""A second policy beside the one in force: it decides on the same view, and its decisions are never applied.

Belongs here: undoing the plan in force before the shadow decides (`rewind`), comparing two plans (`difference`), the
process in which the shadow decides (`child`), the limit of its CPU (`budget`), the differences found (`findings`) and
their publication (`publishing`). Does not: the cycle, which is that of `strato.scheduler.cycle`.
"""
