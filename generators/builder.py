"""A Program under construction: the values at hand, operands to pick, new placeholders, and nodes to emit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from generators import ranges
from generators.choices import Choices
from generators.filling import EVERYWHERE, Filling, choose_filling
from generators.ranges import BOOLEAN, Vals
from generators.sizes import Size, broadcast, most, product, same_dims
from generators.spec import OpSpec, Skip
from generators.types import is_float, is_int, limits
from harness.model.opnames import canonical_target
from harness.model.program import ModuleRecipe, Node, TensorSpec
from harness.model.values import Ref, Value, contiguous_strides

MAX_RANK = 5
MAX_NUMEL = 3000

Dims = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Var:
    """A tensor that later nodes may read: its dtype, its shape in every binding, and what is known of its values.

    `root` names the storage it may share; `contiguous` is certain row-major memory; `overlapping` memory (a stride of 0)
    must not be written to; `writable` is false for parameters and constants. A `pristine` tensor holds drawn data and
    nothing computed, so that even the signs of its zeros are certain.
    """

    name: str
    dtype: str
    dims: Dims
    vals: Vals
    root: str
    contiguous: bool = True
    overlapping: bool = False
    writable: bool = True
    is_input: bool = False
    pristine: bool = False

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.dims)

    @property
    def ref(self) -> Ref:
        """As an argument of a node."""
        return Ref(self.name)

    @property
    def kind(self) -> tuple[str, int]:
        """What promotion looks at."""
        return (self.dtype, len(self.dims))

    @property
    def static(self) -> bool:
        """Whether no size is symbolic."""
        return all(size.static for size in self.dims)


Test = Callable[[Var], bool]


@dataclass(slots=True)
class Builder:
    """The state while one Program is drawn; operators call it, and it undoes what a Skip leaves behind."""

    choices: Choices
    dtypes: tuple[str, ...]
    lane: str
    bindings: tuple[Mapping[str, int], ...]
    vars: list[Var] = field(default_factory=list)
    declared: list[Var] = field(default_factory=list)  # every result as it was when its node ran
    ends: list[Ref] = field(default_factory=list)  # what must be returned though no operator may read it, or none has
    nodes: list[Node] = field(default_factory=list)
    placeholders: list[Node] = field(default_factory=list)
    fillings: list[Filling] = field(default_factory=list)
    modules: dict[str, ModuleRecipe] = field(default_factory=dict)
    pool: list[Size] = field(default_factory=list)
    counter: int = 0
    op: OpSpec | None = None
    spelling: str = ""

    # ---- one operator after the other

    def attempt(self, op: OpSpec) -> bool:
        """Draw one operator; False, with everything undone, where no legal operands were found."""
        before = (list(self.vars), len(self.declared), len(self.ends), len(self.nodes), len(self.placeholders), len(self.fillings))
        modules, counter = len(self.modules), self.counter
        self.op, self.spelling = op, self.choices.choose(op.spellings)
        try:
            op.draw(self)
        except Skip:
            self.vars, declared, ends, nodes, placeholders, fillings = before
            del self.declared[declared:], self.ends[ends:], self.nodes[nodes:], self.placeholders[placeholders:], self.fillings[fillings:]
            while len(self.modules) > modules:
                self.modules.popitem()
            self.counter = counter
            return False
        return True

    @property
    def one(self) -> Size:
        """The static size 1."""
        return self.size(1)

    def size(self, value: int) -> Size:
        """A static size."""
        return Size((value,) * len(self.bindings))

    def numel(self, dims: Iterable[Size]) -> Size:
        """The number of elements of a shape."""
        return product(dims, self.one)

    def signs_zeros(self, var: Var) -> bool:
        """Whether an operator to which 0.0 and -0.0 differ may read `var`: PyTorch promises no sign of a computed zero."""
        without_zero = not var.vals.special and (var.vals.lo > 0 or var.vals.hi < 0)
        return var.pristine or without_zero or not is_float(var.dtype)

    @property
    def is_exact(self) -> bool:
        """Whether this is the exact lane."""
        return self.lane == "exact"

    # ---- picking operands

    def pick(
        self,
        dtypes: Sequence[str],
        *,
        rank: tuple[int, int] = (0, MAX_RANK),
        where: Test | None = None,
        domain: tuple[float, float] = EVERYWHERE,
        strict: bool = False,
        exact: bool = False,
        fresh: int = 25,
        dims: Callable[[], Dims] | None = None,
        distinct: bool = False,
    ) -> Var:
        """A tensor at hand, or else a new input, of one of these dtypes and of a rank in this range.

        `domain` bounds its values where the lane is not special, and everywhere if `strict`. `exact` asks for values that
        every implementation computes alike. `dims` draws the shape of a new input; without it any rank in range is drawn.
        Raises Skip where nothing fits.
        """
        low, high = rank
        bounded = domain is not EVERYWHERE and (strict or self.lane != "special")

        def fits(var: Var) -> bool:
            return (
                var.dtype in dtypes
                and low <= len(var.dims) <= high
                and (not bounded or var.vals.within(*domain))
                and (not exact or var.vals.exact)
                and (not distinct or var.vals.distinct)
                and (where is None or where(var))
            )

        found = [var for var in reversed(self.vars) if fits(var)]
        if found and not self.choices.coin(fresh):
            # Recent values first: chains are longer, and more of the program is alive.
            return found[min(self.choices.below(len(found)), self.choices.below(len(found)))]
        for _ in range(3):
            drawn = dims() if dims else self.new_dims(low, min(high, MAX_RANK))
            if low <= len(drawn) <= high and most(drawn) <= MAX_NUMEL:
                var = self.input(self.new_dtype(dtypes), drawn, domain=domain, strict=strict, distinct=distinct)
                if where is None or where(var):
                    return var
                self._drop_last_input()
        if found:
            return found[0]
        raise Skip

    def new_dtype(self, dtypes: Sequence[str]) -> str:
        """A dtype for a new input: one of these that the profile allows; raises Skip where there is none."""
        allowed = [(_DTYPE_WEIGHTS[name], name) for name in dtypes if name in self.dtypes]
        if not allowed:
            raise Skip
        return self.choices.weighted(allowed)

    def new_size(self, low: int = 0) -> Size:
        """A size for a new dim: often one that occurs already, often symbolic where the case has symbols; at least `low`."""
        pool = [size for size in self.pool if size.low >= low]
        if pool and self.choices.coin(60):
            return self.choices.choose(pool)
        size = self.size(max(low, self.choices.weighted(_SIZES)))
        self.pool.append(size)
        return size

    def new_dims(self, low: int, high: int) -> Dims:
        """A shape for a new input."""
        rank = self.choices.weighted([(_RANKS[n], n) for n in range(low, high + 1)])
        return tuple(self.new_size() for _ in range(rank))

    def partner(
        self,
        first: Var,
        dtypes: Sequence[str],
        *,
        domain: tuple[float, float] = EVERYWHERE,
        strict: bool = False,
        exact: bool = False,
        same_shape: bool = False,
        into: bool = False,
        where: Test | None = None,
        fresh: int = 45,
    ) -> Var:
        """A tensor that broadcasts with `first`; `into` forbids that `first` itself grows."""

        def fits(var: Var) -> bool:
            if where is not None and not where(var):
                return False
            if same_shape:
                return same_dims(var.dims, first.dims)
            joint = broadcast(first.dims, var.dims)
            return joint is not None and (not into or same_dims(joint, first.dims)) and most(joint) <= MAX_NUMEL

        return self.pick(
            dtypes,
            where=fits,
            domain=domain,
            strict=strict,
            exact=exact,
            fresh=fresh,
            dims=lambda: first.dims if same_shape else self._related(first.dims, into),
        )

    def joint(self, *operands: Var) -> Dims:
        """The shape that operands broadcast to; raises Skip where they do not."""
        dims: Dims | None = ()
        for var in operands:
            dims = None if dims is None else broadcast(dims, var.dims)
        if dims is None:
            raise Skip
        return dims

    def _related(self, dims: Dims, into: bool) -> Dims:
        """A shape that broadcasts with `dims`."""
        how = self.choices.below(10)
        if how < 4 or not dims:
            related = dims
        elif how < 6:
            related = dims[self.choices.between(1, len(dims)) :]
        else:
            related = tuple(self.one if self.choices.coin(40) else size for size in dims)
        if not into and how == 9 and len(related) < MAX_RANK:
            related = (self.new_size(), *related)
        return related

    def indices(self, dims: Dims, limit: Size, *, negative: bool = False, dtypes: Sequence[str] = ("int64",), spread: bool = False) -> Var:
        """A new index tensor with values below `limit` in every binding; `spread` asks for a permutation of one dim.

        Raises Skip where there is nothing to point at.
        """
        if limit.low == 0 and most(dims) > 0:
            raise Skip
        recipe = "permutation/1" if spread else "integers/1"
        low = tuple(-value if negative else 0 for value in limit.values)
        high = tuple(max(value - 1, 0) for value in limit.values)
        return self.add_input(self.choices.choose(dtypes), dims, Filling("", recipe, low, high), plain=self.choices.coin(70))

    # ---- placeholders

    def input(
        self,
        dtype: str,
        dims: Dims,
        *,
        domain: tuple[float, float] = EVERYWHERE,
        strict: bool = False,
        distinct: bool = False,
        plain: bool = False,
    ) -> Var:
        """A new placeholder with values that suit the lane and the domain; raises Skip where there are none."""
        if self.lane == "special" and not strict:
            domain = EVERYWHERE
        if distinct:
            count = most(dims)
            if dtype == "bool" or count > min(limits(dtype)[1], 2.0 ** (8 if dtype == "bfloat16" else 11)):
                raise Skip
            filling: Filling | None = Filling("", "permutation/1", (0,), (max(count - 1, 0),))
        else:
            filling = choose_filling(self.choices, dtype, self.lane, domain, strict)
        if filling is None:
            raise Skip
        return self.add_input(dtype, dims, filling, plain=plain, distinct=distinct)

    def add_input(self, dtype: str, dims: Dims, filling: Filling, *, plain: bool = False, distinct: bool = False, role: str = "") -> Var:
        """A placeholder for this filling; its role and memory layout are drawn."""
        varies = len(set(filling.low)) > 1 or len(set(filling.high)) > 1 or any(not size.static for size in dims)
        if not role:
            role = "input" if varies else self.choices.weighted(_PLACEHOLDER_ROLES)
        if role == "parameter" and not is_float(dtype):
            role = "constant"
        letter = {"input": "x", "constant": "c", "parameter": "p", "buffer": "b"}[role]
        name = f"{letter}{sum(1 for node in self.placeholders if node.role == role)}"
        shape = tuple(size.dim for size in dims)
        spec = TensorSpec(dtype, shape)
        if dims and not plain and role != "parameter" and self.choices.coin(25):
            spec = self._layout(spec, dims, distinct)
        fqn = name if role in ("parameter", "buffer") else None
        self.placeholders.append(Node(name, "placeholder", name, role=role, fqn=fqn, spec=spec))
        self.fillings.append(filling.named(name, role))
        var = Var(
            name,
            dtype,
            dims,
            filling.vals(dtype, distinct),
            root=name,
            contiguous=spec.is_contiguous,
            overlapping=bool(spec.expanded),
            writable=role in ("input", "buffer"),
            is_input=True,
            pristine=True,
        )
        self.vars.append(var)
        return var

    def _drop_last_input(self) -> None:
        self.placeholders.pop()
        self.fillings.pop()
        self.vars.pop()

    def _layout(self, spec: TensorSpec, dims: Dims, distinct: bool) -> TensorSpec:
        """The spec with its dims in another order in memory, one of them expanded, or with gaps and an offset."""
        rank = len(dims)
        how = self.choices.below(9)
        if how <= 1 and not distinct:
            return replace(spec, expanded=(self.choices.below(rank),))
        if how == 2 and not distinct and all(size.static for size in dims):
            shape = tuple(size.values[0] for size in dims)
            return replace(spec, strides=tuple(2 * stride for stride in contiguous_strides(shape)), offset=self.choices.below(3))
        if how <= 4 and rank in (4, 5):
            return replace(spec, order=(0, *range(2, rank), 1))
        order = tuple(reversed(range(rank))) if how <= 6 else self.choices.shuffled(rank)
        return spec if order == tuple(range(rank)) else replace(spec, order=order)

    def view_of_input(self, source: Node, source_var: Var) -> None:
        """A second placeholder that shares the storage of `source`: a transposed or flipped-order view of it."""
        assert isinstance(source.spec, TensorSpec)
        rank = len(source.spec.shape)
        name = f"x{sum(1 for node in self.placeholders if node.role == 'input')}"
        order = self.choices.shuffled(rank)
        spec = TensorSpec(
            source.spec.dtype,
            tuple(source.spec.shape[dim] for dim in order),
            order=tuple(order.index(dim) for dim in range(rank)),
            storage=source.spec.storage,
        )
        self.placeholders.append(Node(name, "placeholder", name, role="input", spec=spec))
        dims = tuple(source_var.dims[dim] for dim in order)
        self.vars.append(Var(name, source_var.dtype, dims, source_var.vals, source_var.root, contiguous=False, is_input=True))

    # ---- nodes

    def call(self, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None, *, spelling: str | None = None) -> str:
        """Append one call node in the chosen spelling and return its name."""
        assert self.op is not None
        target = spelling or self.spelling
        self.counter += 1
        opcode, target = ("call_method", target[1:]) if target.startswith(".") else ("call_function", target)
        name = f"{canonical_target(opcode, target)}_{self.counter}"
        self.nodes.append(Node(name, opcode, target, tuple(args), dict(kwargs or {})))
        return name

    def module(
        self,
        args: Sequence[Value],
        ctor: Sequence[Value] = (),
        ctor_kwargs: Mapping[str, Value] | None = None,
        *,
        state: Mapping[str, TensorSpec] | None = None,
        fillings: Mapping[str, Filling] | None = None,
        training: bool = False,
        spelling: str | None = None,
    ) -> str:
        """Append a call_module of the chosen `nn.` spelling, with its recipe and its tensors, and return the node's name."""
        assert self.op is not None
        self.counter += 1
        attribute = f"{self.op.name}_m{self.counter}"
        cls = "torch." + (spelling or self.spelling)
        self.modules[attribute] = ModuleRecipe(cls, tuple(ctor), dict(ctor_kwargs or {}), training, dict(state or {}))
        for local, filling in (fillings or {}).items():
            self.fillings.append(filling.named(f"{attribute}.{local}", "module"))
        name = f"{self.op.name}_{self.counter}"
        self.nodes.append(Node(name, "call_module", attribute, tuple(args)))
        return name

    @property
    def as_module(self) -> bool:
        """Whether an nn class was chosen as the spelling."""
        return self.spelling.startswith("nn.")

    def result(
        self,
        name: str,
        dtype: str,
        dims: Dims,
        vals: Vals,
        *,
        alias: Var | None = None,
        contiguous: bool = True,
        overlapping: bool = False,
        peak: float | None = None,
    ) -> Var:
        """Declare the tensor that node `name` returns.

        `peak` bounds the partial sums behind it. Raises Skip where it grows too large, where PyTorch would not define
        its values, or where it would round in the exact lane.
        """
        if len(dims) > MAX_RANK or most(dims) > MAX_NUMEL:
            raise Skip
        settled = BOOLEAN if dtype == "bool" and vals is BOOLEAN else ranges.settle(dtype, vals, peak)
        if settled is None:
            raise Skip
        if is_float(dtype):
            if self.is_exact and settled.grain is None:
                raise Skip
            if settled.special or not _finite(settled, dtype):
                if self.lane != "special":
                    raise Skip
                settled = replace(settled, special=True)
        elif settled.special and is_int(dtype):
            raise Skip
        var = Var(
            name,
            dtype,
            dims,
            settled,
            root=alias.root if alias else name,
            contiguous=contiguous,
            overlapping=overlapping or bool(alias and alias.overlapping),
            writable=alias.writable if alias else True,
            pristine=alias is not None and alias.pristine,
        )
        self.vars.append(var)
        self.declared.append(var)
        return var

    def item(self, name: str, index: int) -> str:
        """Append the getitem that takes element `index` of a node that returns a tuple or list."""
        self.counter += 1
        taken = f"getitem_{self.counter}"
        self.nodes.append(Node(taken, "call_function", "operator.getitem", (Ref(name), index)))
        return taken

    def result_of_unknown_shape(self, name: str) -> None:
        """Declare that node `name` returns a tensor whose shape depends on data: it goes to the output unread."""
        self.ends.append(Ref(name))

    def mutated(self, target: Var, name: str, vals: Vals) -> Var:
        """Declare that node `name` wrote `vals` into `target` and returned it: every alias may hold them from now on."""
        settled = self.overwritten(target, vals)
        var = _with(target, name=name, vals=settled)
        self.vars.append(var)
        self.declared.append(var)
        return var

    def overwritten(self, target: Var, vals: Vals) -> Vals:
        """Declare that `target` holds `vals` from now on, and every alias of it perhaps; returns them as its dtype holds them."""
        settled = ranges.settle(target.dtype, vals)
        if settled is None or (is_float(target.dtype) and self.lane != "special" and not _finite(settled, target.dtype)):
            raise Skip
        if self.is_exact and is_float(target.dtype) and settled.grain is None:
            raise Skip
        mixed = ranges.union(target.vals, settled)
        for index, var in enumerate(self.vars):
            if var.root == target.root:
                self.vars[index] = _with(var, vals=settled if var.name == target.name else ranges.union(var.vals, mixed))
        return settled


def _with(var: Var, *, vals: Vals, name: str | None = None) -> Var:
    return replace(var, name=name or var.name, vals=vals, is_input=var.is_input and name is None, pristine=False)


def _finite(vals: Vals, dtype: str) -> bool:
    return math.isfinite(vals.peak) and vals.peak <= limits(dtype)[1]


_DTYPE_WEIGHTS = {
    "float32": 50,
    "float64": 7,
    "float16": 6,
    "bfloat16": 6,
    "int64": 12,
    "int32": 8,
    "int8": 5,
    "uint8": 5,
    "bool": 7,
}
_RANKS = {0: 5, 1: 16, 2: 30, 3: 24, 4: 18, 5: 6}
_SIZES = ((20, 2), (22, 3), (16, 4), (12, 5), (6, 6), (5, 8), (14, 1), (4, 0), (1, 7), (1, 9))
_PLACEHOLDER_ROLES = ((84, "input"), (8, "constant"), (5, "parameter"), (3, "buffer"))
