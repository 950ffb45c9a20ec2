"""Passes over a functional aten graph that keep its meaning to the bit: what engines need not see is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.fx

from harness.compilers.aten.capability import writes

aten = torch.ops.aten

_RENAMES = frozenset({aten.alias.default, aten.detach.default, aten.lift_fresh.default})


def drop_renames(graph: torch.fx.Graph) -> int:
    """Replace `alias` and `detach` by what they rename, unless it is an input or the name is returned: that shows."""
    count = 0
    for node in list(graph.nodes):
        if node.target in _RENAMES and node.args and isinstance(node.args[0], torch.fx.Node):
            source = node.args[0]
            if source.op == "call_function" and not any(user.op == "output" or writes(user) for user in node.users):
                node.replace_all_uses_with(source)
                graph.erase_node(node)
                count += 1
    return count


def merge_permutes(graph: torch.fx.Graph) -> int:
    """Join a permute of a permute into one."""
    count = 0
    for node in list(graph.nodes):
        if node.target is aten.permute.default and isinstance(node.args[0], torch.fx.Node) and node.args[0].target is aten.permute.default:
            first = node.args[0]
            inner, outer = cast(list[int], first.args[1]), cast(list[int], node.args[1])
            node.args = (first.args[0], [inner[axis] for axis in outer])
            count += 1
    return count


def drop_dead(graph: torch.fx.Graph) -> int:
    """Erase what nobody reads and what has no effect: writing and drawing random numbers are effects."""
    before = len(graph.nodes)
    graph.eliminate_dead_code(_has_effect)
    return before - len(graph.nodes)


def _has_effect(node: torch.fx.Node) -> bool:
    if node.op in ("placeholder", "output"):
        return True
    if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
        return True
    return node.op == "call_function" and (writes(node) or node.is_impure())


PASSES: tuple[Callable[[torch.fx.Graph], int], ...] = (drop_renames, merge_permutes, drop_dead)


def lower(module: torch.fx.GraphModule) -> dict[str, int]:
    """Run every pass over `module` in place; how many changes each made."""
    changes = {each.__name__: each(module.graph) for each in PASSES}
    if any(changes.values()):
        module.graph.lint()
        module.recompile()
    return changes
