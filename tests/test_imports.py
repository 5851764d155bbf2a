"""Which way modules import each other, beyond what import-linter is asked in pyproject.toml."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_module_is_imported_in_a_circle_type_imports_included() -> None:
    graph = grimp.build_graph("strato", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle
