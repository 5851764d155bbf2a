"""Whether named steps and their dependencies form a directed acyclic graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def dag_problem(edges: Mapping[str, Sequence[str]], *, allow_repeats: bool = False) -> str:
    """Return what keeps the graph from being a DAG, or "".

    Args:
        edges: Every step with the steps it waits for.
        allow_repeats: Whether a step may name the same dependency twice.
    """
    for step, targets in edges.items():
        for target in targets:
            if target not in edges:
                return f"vertex {target} is not defined"
            if target == step:
                return f"vertex {step} depends on itself"
        if not allow_repeats and len(set(targets)) != len(targets):
            return f"vertex {step} lists a dependency twice"
    # Peel off steps whose dependencies are done; what is left is on, or behind, a cycle.
    waiting = {step: set(targets) for step, targets in edges.items()}
    dependants: dict[str, list[str]] = {}
    for step, needed in waiting.items():
        for target in needed:
            dependants.setdefault(target, []).append(step)
    ready = [step for step, targets in waiting.items() if not targets]
    done = 0
    while ready:
        finished = ready.pop()
        done += 1
        for step in dependants.get(finished, ()):
            waiting[step].discard(finished)
            if not waiting[step]:
                ready.append(step)
    if done == len(edges):
        return ""
    stuck = sorted(step for step, targets in waiting.items() if targets)
    return f"there is a cycle through {', '.join(stuck)}"
