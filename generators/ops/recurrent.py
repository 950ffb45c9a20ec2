"""Recurrent layers, whose outputs are nested tuples, and embedding bags."""

from __future__ import annotations

from generators.builder import Builder, Var
from generators.filling import Filling
from generators.ops.common import must
from generators.ops.matmul import module_tensor, weight_spec
from generators.ranges import Vals
from generators.sizes import Size
from generators.spec import OpSpec
from generators.types import WIDE
from harness.model.program import TensorSpec
from harness.model.values import DType, Value

_GATES = {"nn.LSTM": 4, "nn.GRU": 3, "nn.RNN": 1, "nn.LSTMCell": 4, "nn.GRUCell": 3, "nn.RNNCell": 1}


def _state(
    b: Builder, dtype: str, gates: int, features: Size, hidden: Size, suffixes: tuple[str, ...]
) -> tuple[dict[str, TensorSpec], dict[str, Filling]]:
    state: dict[str, TensorSpec] = {}
    fillings: dict[str, Filling] = {}
    rows = b.size(gates * hidden.values[0])
    for suffix in suffixes:
        for name, dims in (("weight_ih", (rows, features)), ("weight_hh", (rows, hidden)), ("bias_ih", (rows,)), ("bias_hh", (rows,))):
            state[name + suffix] = weight_spec(dtype, dims)
            fillings[name + suffix] = module_tensor(b, dtype)
    return state, fillings


def _hidden_vals(x: Var) -> Vals:
    return Vals(-1.0, 1.0, None, False, x.vals.special)


def _layer(b: Builder) -> None:
    x = b.pick(
        WIDE,
        rank=(3, 3),
        where=lambda v: v.dims[2].static and all(size.low > 0 for size in v.dims),
        dims=lambda: (b.new_size(1), b.new_size(1), b.size(b.choices.choose((2, 3, 1, 4)))),
    )
    hidden = b.size(b.choices.choose((2, 3, 1)))
    kwargs: dict[str, Value] = {} if x.dtype == "float32" else {"dtype": DType(x.dtype)}
    batch_first, both = b.choices.coin(50), b.choices.coin(20)
    if batch_first:
        kwargs["batch_first"] = True
    if both:
        kwargs["bidirectional"] = True
    state, fillings = _state(b, x.dtype, _GATES[b.spelling], x.dims[2], hidden, ("_l0", "_l0_reverse") if both else ("_l0",))
    node = b.module([x.ref], [x.dims[2].dim, hidden.dim], kwargs, state=state, fillings=fillings)
    directions = 2 if both else 1
    batch = x.dims[0] if batch_first else x.dims[1]
    b.result(b.item(node, 0), x.dtype, (*x.dims[:2], hidden * directions), _hidden_vals(x), contiguous=False)
    if b.choices.coin(50):
        last = b.item(node, 1)
        final = (b.size(directions), batch, hidden)
        if b.spelling == "nn.LSTM":
            reach = float(x.dims[1 if batch_first else 0].high)
            cell = Vals(-reach, reach, None, False, x.vals.special)
            which = b.choices.below(2)
            b.result(b.item(last, which), x.dtype, final, cell if which else _hidden_vals(x), contiguous=False)
        else:
            b.result(last, x.dtype, final, _hidden_vals(x), contiguous=False)


def _cell(b: Builder) -> None:
    x = b.pick(
        WIDE,
        rank=(2, 2),
        where=lambda v: v.dims[1].static and all(size.low > 0 for size in v.dims),
        dims=lambda: (b.new_size(1), b.size(b.choices.choose((2, 3, 1)))),
    )
    hidden = b.size(b.choices.choose((2, 3, 1)))
    kwargs: dict[str, Value] = {} if x.dtype == "float32" else {"dtype": DType(x.dtype)}
    state, fillings = _state(b, x.dtype, _GATES[b.spelling], x.dims[1], hidden, ("",))
    node = b.module([x.ref], [x.dims[1].dim, hidden.dim], kwargs, state=state, fillings=fillings)
    dims = (x.dims[0], hidden)
    if b.spelling == "nn.LSTMCell":
        for index in range(b.choices.between(1, 2)):
            b.result(b.item(node, index), x.dtype, dims, _hidden_vals(x), contiguous=False)
    else:
        b.result(node, x.dtype, dims, _hidden_vals(x), contiguous=False)


def _bag(b: Builder) -> None:
    """Sums, means or maxima of rows of a table, by a matrix of indices."""
    table = b.pick(WIDE, rank=(2, 2), where=lambda v: v.dims[0].low > 0 and v.dims[1].low > 0 and v.contiguous)
    must(not b.is_exact)
    bags, length = b.new_size(1), b.size(b.choices.choose((2, 3, 1)))
    index = b.indices((bags, length), table.dims[0])
    mode = b.choices.choose(("sum", "mean", "max"))
    reach = table.vals.peak * length.high
    node = b.call([index.ref, table.ref], {"mode": mode})
    b.result(node, table.dtype, (bags, table.dims[1]), table.vals.rough(-reach, reach), contiguous=False)


OPS: tuple[OpSpec, ...] = (
    OpSpec("lstm", "recurrent", ("nn.LSTM",), _layer, WIDE, False, 2),
    OpSpec("gru", "recurrent", ("nn.GRU",), _layer, WIDE, False, 2),
    OpSpec("rnn", "recurrent", ("nn.RNN",), _layer, WIDE, False, 1),
    OpSpec("lstm_cell", "recurrent", ("nn.LSTMCell",), _cell, WIDE, False, 1),
    OpSpec("gru_cell", "recurrent", ("nn.GRUCell",), _cell, WIDE, False, 1),
    OpSpec("rnn_cell", "recurrent", ("nn.RNNCell",), _cell, WIDE, False, 1),
    OpSpec("embedding_bag", "recurrent", ("torch.nn.functional.embedding_bag",), _bag, WIDE, False, 1),
)
