"""Patches as pure functions over decoded JSON: JSON patch, merge patch, strategic merge patch."""

from strato.server.patch.json_patch import PatchTestFailed, apply_json_patch
from strato.server.patch.merge import apply_merge_patch
from strato.server.patch.strategic import apply_strategic_patch

__all__ = ["PatchTestFailed", "apply_json_patch", "apply_merge_patch", "apply_strategic_patch"]
