"""The matmul family."""

from __future__ import annotations

from harness.backends.oneflow.translate.registry import form, op

op("matmul", form("input: T, other: T, *, out=None", "oneflow.matmul(input, other)"))
op("mm bmm", form("input: T, mat2: T, *, out=None", "oneflow.{}(input, mat2)"))
op("mv", form("input: T, vec: T, *, out=None", "oneflow.mv(input, vec)"))
op("dot", form("input: T, tensor: T, *, out=None", "oneflow.dot(input, tensor)"), form("input: T, other: T", "oneflow.dot(input, other)"))
op(
    "addmm",
    form("input: T, mat1: T, mat2: T, *, beta: s = 1, alpha: s = 1, out=None", "oneflow.addmm(input, mat1, mat2, alpha=alpha, beta=beta)"),
)
op(
    "baddbmm",
    form(
        "input: T, batch1: T, batch2: T, *, beta: s = 1, alpha: s = 1, out=None",
        "oneflow.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)",
    ),
)
op("einsum", form("equation: S, *operands: T", "oneflow.einsum(equation, *operands)"))
op("aten:einsum", form("equation: S, operands: L, *, path=None", "oneflow.einsum(equation, *operands)"))
op("tensordot", form("a: T, b: T, dims=2, out=None", "oneflow.tensordot(a, b, dims)"))
# What OneFlow's own nn.LSTMCell and its kin call; there are no functions of theirs in oneflow.nn.functional.
_CELL = "input: T, hx{}, w_ih: T, w_hh: T, b_ih: T = None, b_hh: T = None"
op("lstm_cell", form(_CELL.format(": L"), "oneflow._C.lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)"))
op("gru_cell rnn_tanh_cell rnn_relu_cell", form(_CELL.format(": T"), "oneflow._C.{}(input, hx, w_ih, w_hh, b_ih, b_hh)"))
op("linear", form("input: T, weight: T, bias: T = None", "oneflow.nn.functional.linear(input, weight, bias)"))
op("cross", form("input: T, other: T, dim: i = None, *, out=None", "oneflow.cross(input, other, dim)"))
op("linalg_cross", form("input: T, other: T, *, dim: i = -1, out=None", "oneflow.linalg.cross(input, other, dim)"))
op("linalg_inv", form("A: T, *, out=None", "oneflow.linalg.inv(A)"), form("input: T", "oneflow.linalg.inv(input)"))
