"""Checks of ``strato doctor``: facts are collected at the edge and judged by pure functions.

`probe` collects facts about this machine, which `machine` judges; `ask` collects a cluster's, which `cluster` judges.
`files` does both for the directory of the embedded cluster.
"""
