"""Recording the aten calls of a function into an fx.Graph that torch-mlir's FxImporter takes.

A dispatch mode is all it needs: under no_grad composite operators decompose by themselves, and what arrives here is
what torch.export would have recorded. On the case's real tensors, which are small, that costs a fifth of what it costs
on FakeTensors; only results that depend on data need the latter.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
import torch.fx
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.passes.shape_prop import TensorMetadata, _extract_tensor_metadata
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.functions import CleanDiv, FloorDiv

_NOT_RECORDED = frozenset({torch.ops.prim.device.default})
# What torch.export drops too.
_SAME_VALUE = frozenset({torch.ops.aten.alias.default, torch.ops.aten.detach.default, torch.ops.aten.lift_fresh.default})

_DATA_DEPENDENT = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_NEEDS_STORAGE = frozenset({torch.ops.aten.as_strided.default})  # the importer rewrites it by its FakeTensor's storage

Operator = torch._ops.OpOverload


class Untraceable(Exception):
    """The function cannot be recorded this way; the text says why."""


class Mutates(Untraceable):
    """An operator that writes to its argument: the function must be functionalized first."""


class NeedsFake(Untraceable):
    """On real tensors a value or size of this very run would be baked in: trace on FakeTensors with sizes of their own."""


class Specialized(Untraceable):
    """A symbolic size that would have to become a number."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every aten call made inside it; `graph` is then ready for the importer.

    `mode` is the FakeTensorMode in which the function runs; without one it runs on real tensors, and what depends on
    their values raises NeedsFake. `label` names the program's node at work, for locations. Operators in
    `decompositions` are replaced by what their decomposition calls. An operator that writes to its argument raises
    Mutates; under `functional`, the recorder takes the place below a FunctionalTensorMode, which turns such operators
    into others.
    """

    def __init__(
        self,
        mode: FakeTensorMode | None,
        *,
        label: Callable[[], str],
        decompositions: Mapping[Operator, Callable[..., Any]] | None = None,
        functional: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if functional:
            # Modes without a key lie above all those that have one, so this is the only place below functionalization.
            self._mode_key = torch._C._TorchDispatchModeKey.PROXY
        self.graph = torch.fx.Graph()
        self.arguments: list[str] = []
        self.literals: dict[str, torch.Tensor] = {}
        self._mode = mode
        self._label = label
        self._decompositions = decompositions or {}
        self._lines: dict[str, int] = {}
        self._nodes: dict[int, torch.fx.Node] = {}
        self._alive: list[object] = []
        self._sizes: dict[sympy.Expr, torch.fx.Node] = {}
        self._carriers: dict[sympy.Expr, tuple[torch.fx.Node, int]] = {}

    def argument(self, name: str, value: torch.Tensor) -> None:
        """Declare a tensor argument of the function."""
        self._placeholder(name, value)

    def _placeholder(self, name: str, value: torch.Tensor) -> torch.fx.Node:
        node = self.graph.placeholder(name.replace(".", "_"))
        self._describe(node, value)
        self.arguments.append(name)
        self._bind(value, node)
        return node

    def _describe(self, node: torch.fx.Node, value: object) -> None:
        """Give the importer what it reads a node's type from."""
        if self._mode is None:
            if isinstance(value, torch.Tensor):
                node.meta["tensor_meta"] = TensorMetadata(value.shape, value.dtype, False, value.stride(), None, False, {})
            elif isinstance(value, list):
                value = [_stand_in(item) if isinstance(item, torch.Tensor) else item for item in value]
        node.meta["val"] = value

    def _bind(self, value: torch.Tensor, node: torch.fx.Node) -> None:
        self._nodes[id(value)] = node
        self._alive.append(value)
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
                self._carriers.setdefault(size.node.expr, (node, dim))

    def _emit(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: object) -> torch.fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        self._describe(node, value)
        label = self._label()
        line = self._lines.setdefault(label, len(self._lines) + 1)
        node.meta["stack_trace"] = f'File "{label}", line {line}, in forward'
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _NOT_RECORDED:
            return func(*args, **kwargs)
        # Composite operators are decomposed by C++, except those that a decomposition calls from inside this mode.
        for decomposition in (self._decompositions.get(func), func.decompose):
            if decomposition is not None:
                with self:
                    result = decomposition(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        if func._schema.is_mutable:
            raise Mutates(f"{func} writes to its argument")
        if self._mode is None:
            self._refuse_data_dependence(func, args, kwargs)
        literal = self._literals(func, (args, kwargs))
        if literal:
            args, kwargs = self._replace(args, literal), self._replace(kwargs, literal)
        result = func(*args, **kwargs)
        if func in _SAME_VALUE:
            self._bind(result, self._map(args[0]))
            return result
        if result is None:
            return None  # an assertion; the importer leaves them out
        node = self._emit(func, self._map(args), self._map(kwargs), list(result) if isinstance(result, list | tuple) else result)
        if isinstance(result, list | tuple):
            for index, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    self._bind(item, self._emit(operator.getitem, (node, index), {}, item))
        elif isinstance(result, torch.Tensor):
            self._bind(result, node)
        elif self._mode is None:
            raise NeedsFake(f"{func} returns a {type(result).__name__}")
        elif isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
            self._sizes[result.node.expr] = node
            # The importer asks the tensor that is read for this; it asks nobody else.
            self.node(args[0]).meta["tensor_meta"] = _extract_tensor_metadata(args[0])
        else:
            raise Untraceable(f"{func} returns a {type(result).__name__}")
        return result

    def __sym_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Arithmetic on sizes, which PyTorch asks whoever holds the PROXY key to do; sizes are resolved where they are used."""
        return func(*args, **kwargs)

    def _refuse_data_dependence(self, func: Operator, args: Any, kwargs: Any) -> None:
        if _DATA_DEPENDENT & set(func.tags) or func in _NEEDS_STORAGE:
            raise NeedsFake(f"{func} depends on data")
        if func is torch.ops.aten.index.Tensor and any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            raise NeedsFake(f"{func} by a mask")

    def _literals(self, func: Operator, values: object) -> dict[int, torch.Tensor]:
        """Tensors among `values` that come from outside, each made a further argument of the function, by id."""
        found: dict[int, torch.Tensor] = {}
        for value in torch.utils._pytree.tree_leaves(values):
            if not isinstance(value, torch.Tensor) or id(value) in self._nodes or isinstance(value, FakeTensor):
                continue
            if self._mode is None and func is not torch.ops.aten.lift_fresh.default:
                raise NeedsFake(f"{func} reads a tensor that no recorded operator made")
            name = f"literal_{len(self.literals)}"
            self.literals[name] = value
            found[id(value)] = value if self._mode is None else self._mode.from_tensor(value, static_shapes=True)
            self._placeholder(name, found[id(value)])
        return found

    def _replace(self, values: Any, literal: dict[int, torch.Tensor]) -> Any:
        return torch.utils._pytree.tree_map(lambda value: literal.get(id(value), value), values)

    def _map(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor | torch.SymInt):
            return self.node(value)
        if isinstance(value, list | tuple):
            return [self._map(item) for item in value] if isinstance(value, list) else tuple(self._map(item) for item in value)
        if isinstance(value, dict):
            return {key: self._map(item) for key, item in value.items()}
        if isinstance(value, torch.SymFloat | torch.SymBool):
            if value.node.expr in self._sizes:
                return self._sizes[value.node.expr]
            raise Specialized(f"a symbolic {type(value).__name__} as an operator's argument")
        return value

    def node(self, value: torch.Tensor | torch.SymInt) -> Any:
        """The graph's node for a value; an int for a symbolic size that is known."""
        if isinstance(value, torch.SymInt):
            return self._size(value.node.expr, value)
        if id(value) not in self._nodes:
            raise Untraceable(f"a tensor of shape {tuple(value.shape)} that no recorded operator made")
        return self._nodes[id(value)]

    def _size(self, expr: sympy.Expr, like: torch.SymInt) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr not in self._sizes:
            self._sizes[expr] = self._size_node(expr, like)
        return self._sizes[expr]

    def _size_node(self, expr: sympy.Expr, like: torch.SymInt) -> torch.fx.Node:
        value = self._symint(expr, like)
        if expr in self._carriers:
            node, dim = self._carriers[expr]
            return self._emit(torch.ops.aten.sym_size.int, (node, dim), {}, value)
        if expr.is_Symbol:
            return self._solve(expr, like)
        if isinstance(expr, sympy.Add | sympy.Mul):
            function = operator.add if isinstance(expr, sympy.Add) else operator.mul
            first, *rest = sorted(expr.args, key=lambda part: part.is_Integer)
            return self._emit(function, (self._size(first, like), self._size(expr.func(*rest), like)), {}, value)
        if isinstance(expr, FloorDiv | CleanDiv):
            return self._emit(operator.floordiv, tuple(self._size(part, like) for part in expr.args), {}, value)
        raise Specialized(f"the symbolic size {expr} as an operator's argument")

    def _solve(self, symbol: sympy.Symbol, like: torch.SymInt) -> torch.fx.Node:
        """A symbol that stands in no argument's shape by itself but linearly in one, as in `2*s0 + 1`."""
        for carried in self._carriers:
            slope = carried.coeff(symbol)
            rest = sympy.expand(carried - slope * symbol)
            if carried.free_symbols == {symbol} and slope.is_Integer and slope != 0 and rest.is_Integer:
                size = self._size(carried, like)
                if rest != 0:
                    size = self._emit(operator.sub, (size, int(rest)), {}, self._symint(carried - rest, like))
                if slope == 1:
                    return size  # type: ignore[no-any-return]
                return self._emit(operator.floordiv, (size, int(slope)), {}, self._symint(symbol, like))
        raise Specialized(f"the size {symbol}, which no tensor argument carries")

    @staticmethod
    def _symint(expr: sympy.Expr, like: torch.SymInt) -> Any:
        env = like.node.shape_env
        return env.create_symintnode(expr, hint=None)


@functools.cache
def _plain_mode() -> FakeTensorMode:
    return FakeTensorMode()


def _stand_in(value: torch.Tensor) -> FakeTensor:
    """A FakeTensor of the same type: the importer takes the types of several results from nothing else."""
    meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return FakeTensor(_plain_mode(), meta, torch.device("cpu"))
