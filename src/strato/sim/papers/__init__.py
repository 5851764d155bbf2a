"""Tables of papers, computed anew: `strato sim reproduce NAME` runs one and compares it with what was published.

One file per paper makes a `Reproduction` of `outcome`; `registry.PAPERS` lists them. They use the scheduler's own cycle
and plugins; what a paper's artefact does besides (how pods are drawn, what is measured when) is followed here.
"""
