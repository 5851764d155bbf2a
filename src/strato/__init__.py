"""Strato: batch scheduling for Kubernetes, one engine in three worlds."""

__version__ = "0.1.0"
