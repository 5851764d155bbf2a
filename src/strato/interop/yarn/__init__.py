"""YARN's two schedulers: their files read as they are, their shares, orders and limits as plugins.

`fair` and `capacity` decide in pure functions over plain numbers (spec yarn, parts A and B); what is left here carries
them over to queues and pods.
"""
