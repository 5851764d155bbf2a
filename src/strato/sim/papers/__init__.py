"""Reproduces tables of papers: `strato sim reproduce NAME` computes one and compares it with the published numbers.

One file per paper makes a `Reproduction` (`outcome`); `registry.PAPERS` lists them. The scheduler's own cycle and
plugins make the decisions. How a paper's artefact draws pods and what it measures when is programmed again in its file.
"""
