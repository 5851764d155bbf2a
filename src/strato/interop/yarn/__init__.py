"""YARN's Fair and Capacity Schedulers: their unchanged configuration files, and their policies as plugins.

`fair` and `capacity` hold YARN's decisions as pure functions over plain numbers (spec yarn, parts A and B). The other
modules apply these to the cluster's queues, jobs and pods.
"""
