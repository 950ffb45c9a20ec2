"""Rewriting graphs: one operator in all its spellings, or a pattern of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onefx
from onefx import subgraph_rewriter

from harness.oneflow_fx.tracing import symbolic_trace


def replace_operator(module: onefx.GraphModule, spellings: Iterable[Callable[..., Any] | str], by: Callable[..., Any]) -> int:
    """Replace every call of an operator by a call of `by` on the same arguments; how many there were.

    `spellings` are functions, such as `operator.add` and `oneflow.add`, and names of methods, such as `add`. The module is
    linted and recompiled in place.
    """
    functions = [spelling for spelling in spellings if not isinstance(spelling, str)]
    methods = {spelling for spelling in spellings if isinstance(spelling, str)}
    count = 0
    for node in list(module.graph.nodes):
        is_function = node.op == "call_function" and any(node.target is function for function in functions)
        if not is_function and not (node.op == "call_method" and node.target in methods):
            continue
        with module.graph.inserting_after(node):
            new = module.graph.call_function(by, node.args, node.kwargs)
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
        count += 1
    module.graph.lint()
    module.recompile()
    return count


def replace_pattern(module: onefx.GraphModule, pattern: Callable[..., Any], replacement: Callable[..., Any]) -> list[Any]:
    """Replace every part of the graph that computes what `pattern` does by what `replacement` does; onefx's matches.

    Both are functions of the same arguments, traced as `symbolic_trace` does. The module is linted and recompiled in place.
    """
    traced = [each if isinstance(each, onefx.GraphModule) else symbolic_trace(each) for each in (pattern, replacement)]
    matches: list[Any] = subgraph_rewriter.replace_pattern(module, *traced)
    module.graph.lint()
    module.recompile()
    return matches
