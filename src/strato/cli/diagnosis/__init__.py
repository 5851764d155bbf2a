"""What ``strato doctor`` looks at: facts are probed at the edge and judged by pure functions.

`machine` and `cluster` judge, `probe` and `ask` look; `files` does both for the directory of the embedded cluster.
"""
