"""repro.py for OneFlow: imports oneflow and numpy alone and holds the expected values.

The calls are the very translation that ran, printed. What ran in lockstep is fed the reference's inputs here too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.operands import Source, is_structural
from harness.backends.oneflow.repro import call_tensors, render_call
from harness.backends.oneflow.translate import FLOW_DTYPES
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import NodeTrace, Outcome
from harness.model.program import Node
from harness.model.values import Ref, Tensor, Value, contiguous_strides, leaves, map_leaves
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import ERROR_KINDS, PROCESS_KINDS, compared, docstring, tolerance_of
from harness.reproducers.entry_point import entry_point
from harness.reproducers.literals import NUMPY, ONEFLOW, array_source, number, storage_source

LOCKSTEP = "oneflow:lockstep"

_HEAD = """\
{docstring}

import sys{imports}

try:
    import numpy as np
    import oneflow
except ImportError as error:
    print(f"cannot run: {{error}}")
    sys.exit(2)
"""

_COMPARE = '''
def flatten(value):
    """The leaves of nested tuples, lists and dicts, in order."""
    if isinstance(value, (tuple, list, oneflow._oneflow_internal.TensorTuple)):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten(item)]
    return [value]


def differs(actual, wanted):
    """How a result differs from what eager PyTorch gives; empty where it does not."""
    if not isinstance(wanted, tuple):
        return "" if not isinstance(actual, oneflow.Tensor) and actual == wanted else f"{{actual!r}} instead of {{wanted!r}}"
    dtype, values = wanted
    if not isinstance(actual, oneflow.Tensor):
        return f"a {{type(actual).__name__}} instead of a tensor"
    found = actual.numpy()
    if actual.dtype != dtype or found.shape != values.shape:
        return f"{{actual.dtype}} {{found.shape}} instead of {{dtype}} {{values.shape}}"
    with np.errstate(all="ignore"):
        same = (found == values) | ((found != found) & (values != values)){near}{signs}
    return "" if same.all() else f"{{np.count_nonzero(~same)}} of {{same.size}} elements differ\\ngot\\n{{found}}\\nexpected\\n{{values}}"


def run():
    try:
{compute}
    except Exception as error:
        print(f"{failure}: {{type(error).__name__}}: {{str(error).strip()}}")
        return {failure_code}
    if len(results) != len(expected):
        print(f"BUG: {{len(results)}} results instead of {{len(expected)}}")
        return 1
    for index in {chosen}:
        difference = differs(results[index], expected[index])
        if difference:
            print(f"BUG: OneFlow disagrees with eager PyTorch: {{difference}}")
            return 1
    print("fixed: OneFlow agrees with eager PyTorch")
    return 0
'''

_ONCE = """\
        results = flatten(compute())
        [result.numpy() for result in results if isinstance(result, oneflow.Tensor)]  # waits until they are computed"""

_REPEATED = """\
        for _ in range({calls}):  # the first call is right
            results = flatten(compute())
            [result.numpy() for result in results if isinstance(result, oneflow.Tensor)]  # waits until they are computed"""


def repro_source(
    case: Case, verdict: Verdict, reference: Outcome, *, guilty: str | None = None, timeout: float = 30.0, note: str = ""
) -> str:
    """repro.py: exits 1 while the bug exists, 0 once it is fixed, 2 if it cannot run; `timeout` is in seconds.

    `guilty` names the node at fault where the verdict does not. Raises Unsupported where a node has no translation, or
    where the reference's traces, which programs of several nodes need, were not kept.
    """
    call = verdict.call or 0
    traces = traces_of_call(case, reference, call)
    chosen = _chosen(case, traces, verdict, guilty)
    script = Script(case, traces, chosen)
    try:
        body = script.body()
    except OneFlowUnsupported as error:
        raise Unsupported(f"a node has no translation to OneFlow: {error}") from error
    alone = verdict.target == LOCKSTEP
    output = Ref(chosen[-1].name) if alone else case.program.output
    expected = traces[chosen[-1].name].output if alone else reference.calls[call].output if reference.calls else None
    if verdict.kind is Kind.MUTATION:
        output, expected = mutated(case, reference, verdict, call)
    body = [f"    {line}" for line in body]
    middle = "\n".join([*script.tensors, "", "", "def compute():", *body, f"    return {script.result(output)}"])
    return assemble(middle, expected, verdict, calls=call + 1, timeout=timeout, note=note)


def assemble(
    middle: str, expected: Value, verdict: Verdict, *, calls: int, timeout: float, note: str, variables: Sequence[str] = ()
) -> str:
    """A whole script around the statements that define `compute()`; `variables` of the environment are set before the import."""
    process = verdict.kind in PROCESS_KINDS
    imports = "\nimport signal\nimport subprocess" if process else ""
    if variables:
        imports = "\nimport os" + imports + "\n\n" + "\n".join(f'os.environ["{name}"] = "1"' for name in variables)
    parts = [
        _HEAD.format(docstring=docstring(verdict, note), imports=imports),
        middle,
        _expected(expected),
        _check(verdict, expected, calls=calls),
        entry_point(verdict.kind, timeout=timeout),
    ]
    text = "\n\n\n".join(part.strip("\n") for part in parts) + "\n"
    mathematics = [name for name in ("inf", "nan") if re.search(rf"(?<![\w.\"]){name}\b", "\n".join(parts[1:]))]
    return text.replace("\ntry:\n", f"from math import {', '.join(mathematics)}\n\ntry:\n", 1) if mathematics else text


def traces_of_call(case: Case, reference: Outcome, call: int) -> dict[str, NodeTrace]:
    """The reference's node traces; a single node's follow from the case itself."""
    if call < len(reference.witness) and reference.witness[call].trace:
        return {trace.name: trace for trace in reference.witness[call].trace}
    operators = case.program.operators
    if not operators:
        return {}
    if len(operators) != 1 or not reference.calls:
        raise Unsupported("the reference's traces were not kept, so nobody knows what each node was fed")
    values = case.arguments(call)
    node = operators[0]

    def concrete(leaf: Value) -> Value:
        return values[leaf.node] if isinstance(leaf, Ref) else leaf

    if case.program.output != Ref(node.name):
        raise Unsupported("the output is not the only node's, so nobody knows what that one gave")
    args, kwargs = map_leaves(node.args, concrete), map_leaves(dict(node.kwargs), concrete)
    return {node.name: NodeTrace(node.name, args, kwargs, reference.calls[call].output)}


def _chosen(case: Case, traces: dict[str, NodeTrace], verdict: Verdict, guilty: str | None) -> tuple[Node, ...]:
    """The nodes to run: in lockstep those that share storage with the guilty one up to it, else all."""
    name = verdict.node or guilty
    nodes = tuple(node for node in case.program.operators if node.name in traces)
    if verdict.target != LOCKSTEP or name is None or name not in traces:
        return nodes
    unit = traces[name].unit
    kept = [node for node in nodes if node.name == name or (unit is not None and traces[node.name].unit == unit)]
    return tuple(kept[: [node.name for node in kept].index(name) + 1])


class Script:
    """Statements for some nodes of a program, and the tensors that reach them from outside."""

    def __init__(self, case: Case, traces: dict[str, NodeTrace], nodes: Sequence[Node]) -> None:
        self.case = case
        self.traces = traces
        self.nodes = nodes
        self.inside: set[str] = set()
        self.tensors: list[str] = []
        self.made: set[str] = set()
        self.named = {node.name for node in case.program}
        self.bases: dict[str, str] = {}

    def body(self) -> list[str]:
        """The statements, one node after the other; raises OneFlowUnsupported."""
        lines: list[str] = []
        for node in self.nodes:
            trace = self.traces[node.name]
            if is_structural(node, trace):
                lines += self._structural(node, trace)
                continue
            code = render_call(node, trace, case=self.case, result=node.name)
            for name, source in call_tensors(node, trace, case=self.case).items():
                lines += self._operand(node, name, source)
            lines += code.split("\n")
            self.inside.add(node.name)
        return lines

    def result(self, output: Value) -> str:
        """The program's output as an expression; raises Unsupported where a part was not computed here."""
        if isinstance(output, Ref):
            return self._named(output.node)
        if isinstance(output, tuple | list | dict):
            items = [self.result(item) for item in (output.values() if isinstance(output, dict) else output)]
            return "[" + ", ".join(items) + "]"
        return number(output) if isinstance(output, int | float | complex) else repr(output)

    def _named(self, node: str) -> str:
        if node in self.inside or node in self.made:
            return node
        value = self.case.arguments(0).get(node)
        if isinstance(value, Tensor):
            self.make(node, value)
            return node
        if node in self.traces and not any(isinstance(leaf, Tensor) for _, leaf in leaves(self.traces[node].output)):
            return repr(self.traces[node].output)
        raise Unsupported(f"the output holds {node!r}, which the script does not compute")

    def _structural(self, node: Node, trace: NodeTrace) -> list[str]:
        container = node.args[0] if node.args else None
        if not isinstance(container, Ref) or container.node not in self.inside:
            return []
        self.inside.add(node.name)
        return [f"{node.name} = {container.node}[{trace.args[1]!r}]"]

    def _operand(self, node: Node, name: str, source: Source) -> list[str]:
        """The statement that gives an operand its name, where the tensor has another one here."""
        if source.node in self.inside:
            path = "".join(f"[{step!r}]" for step in source.path)
            return [] if name == source.node and not path else [f"{name} = {source.node}{path}"]
        if source.node in self.named:
            # What came from outside is made once: later nodes see what earlier ones wrote into it.
            if name not in self.made:
                self.make(name, source.tensor)
            return []
        own = f"{node.name}_{name}"  # a layer's state or a literal, whose name another node may use as well
        self.make(own, source.tensor)
        return [f"{name} = {own}"]

    def make(self, name: str, tensor: Tensor) -> None:
        """Add the statement that makes a tensor; raises Unsupported for a dtype that OneFlow does not have."""
        if tensor.dtype not in FLOW_DTYPES:
            raise Unsupported(f"OneFlow has no dtype {tensor.dtype}")
        self.made.add(name)
        head = f"{name} = "
        dense = tensor.strides is None or tensor.strides == contiguous_strides(tensor.shape)
        if tensor.dtype == "bfloat16" or (tensor.storage is None and dense):
            self.tensors += f"{head}{array_source(tensor.array(), tensor.dtype, style=ONEFLOW, indent=' ' * len(head))}".split("\n")
            return
        base = self._base(name, tensor)
        strides = tensor.strides if tensor.strides is not None else contiguous_strides(tensor.shape)
        begin = f"{base}[{tensor.offset}:]" if tensor.offset else base
        scaled = "(" + "".join(f"{stride} * {base}.itemsize, " for stride in strides).rstrip() + ")"
        self.tensors.append(f"{head}oneflow.from_numpy(np.lib.stride_tricks.as_strided({begin}, {tensor.shape!r}, {scaled}))")

    def _base(self, name: str, tensor: Tensor) -> str:
        """The numpy array that holds a strided tensor's memory; tensors that share a storage share it."""
        if tensor.storage is not None and tensor.storage in self.bases:
            return self.bases[tensor.storage]
        views = [tensor]
        if tensor.storage is not None:
            everything = [leaf for trace in self.traces.values() for _, leaf in leaves([list(trace.args), dict(trace.kwargs)])]
            views += [leaf for leaf in everything if isinstance(leaf, Tensor) and leaf.storage == tensor.storage]
        base = f"{name}_memory"
        head = f"{base} = "
        self.tensors += f"{head}{storage_source(*views, style=NUMPY, indent=' ' * len(head))}".split("\n")
        if tensor.storage is not None:
            self.bases[tensor.storage] = base
        return base


def mutated(case: Case, reference: Outcome, verdict: Verdict, call: int) -> tuple[Value, Value]:
    """The placeholder that a mutation verdict is about, and what it should hold afterwards."""
    name = verdict.path if verdict.path in {node.name for node in case.program.placeholders} else ""
    if not name or len(reference.calls) <= call:
        raise Unsupported("which input is mutated is not known")
    return Ref(name), reference.calls[call].mutated.get(name, case.arguments(call)[name])


def _expected(value: Value) -> str:
    lines = ["expected = ["]
    for _, leaf in leaves(value):
        if isinstance(leaf, Tensor):
            head = f"    (oneflow.{FLOW_DTYPES.get(leaf.dtype, leaf.dtype)}, "
            lines += f"{head}{array_source(leaf.array(), leaf.dtype, style=NUMPY, indent=' ' * len(head))}),".split("\n")
        else:
            lines.append(f"    {number(leaf) if isinstance(leaf, int | float | complex) else repr(leaf)},")
    return "\n".join([*lines, "]"]) if len(lines) > 1 else "expected = []"


def _check(verdict: Verdict, expected: Value, *, calls: int) -> str:
    tolerance = tolerance_of(verdict)
    if verdict.kind in ERROR_KINDS:
        failure, code = "BUG: OneFlow fails", 1
    elif verdict.kind in PROCESS_KINDS:
        failure, code = "fixed: OneFlow refuses it", 0
    else:
        failure, code = "cannot run: OneFlow now refuses it", 2
    near = ""
    if tolerance.rtol or tolerance.atol:
        near = f"\n        same |= abs(found - values) <= {tolerance.atol!r} + {tolerance.rtol!r} * abs(values)"
    signs = "\n        same &= (values != 0) | (np.signbit(found) == np.signbit(values))" if tolerance.signs else ""
    tensors = [index for index, (_, leaf) in enumerate(leaves(expected)) if isinstance(leaf, Tensor)]
    picked = compared(verdict, expected)
    chosen = "range(len(expected))" if len(picked) == len(tensors) else repr([tensors[index] for index in picked])
    compute = _REPEATED.format(calls=calls) if calls > 1 else _ONCE
    return _COMPARE.format(compute=compute, near=near, signs=signs, failure=failure, failure_code=code, chosen=chosen)
