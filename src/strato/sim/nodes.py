"""Shapes of simulated nodes, which are those of hollow nodes (`strato.node.shapes`)."""

from strato.node.shapes import GPU, NodeShape, parse_nodes, total_capacity

__all__ = ["GPU", "NodeShape", "parse_nodes", "total_capacity"]
