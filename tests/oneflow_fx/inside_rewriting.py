from __future__ import annotations

import operator
import random

import numpy as np
import oneflow

from harness.oneflow_fx import GraphModule, ProfilingInterpreter, fuse_conv_bn, replace_operator, replace_pattern, symbolic_trace

X = oneflow.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Adds(oneflow.nn.Module):
    def forward(self, x: oneflow.Tensor, y: oneflow.Tensor) -> oneflow.Tensor:
        return (x + y) + oneflow.add(x, y) + x.add(y) - x


class Muls(oneflow.nn.Module):
    """The same written by hand with every addition a product."""

    def forward(self, x: oneflow.Tensor, y: oneflow.Tensor) -> oneflow.Tensor:
        return (x * y) * oneflow.mul(x, y) * x.mul(y) - x


def check_every_spelling_of_an_operator_is_replaced() -> None:
    traced = symbolic_trace(Adds())
    assert replace_operator(traced, (operator.add, oneflow.add, "add"), oneflow.mul) == 5
    assert "add" not in traced.code
    assert np.array_equal(traced(X, X + 1).numpy(), Muls()(X, X + 1).numpy())
    assert replace_operator(traced, (operator.add, oneflow.add, "add"), oneflow.mul) == 0


def check_a_pattern_is_replaced_wherever_it_stands() -> None:
    class Twice(oneflow.nn.Module):
        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            a = oneflow.relu(x).sum(1)
            b = oneflow.relu(x - 4).sum(1)
            return a + b

    class ByHand(oneflow.nn.Module):
        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            return oneflow.abs(x).mean(1) + oneflow.abs(x - 4).mean(1)

    traced = symbolic_trace(Twice())
    matches = replace_pattern(traced, lambda x: oneflow.relu(x).sum(1), lambda x: oneflow.abs(x).mean(1))
    assert len(matches) == 2
    assert "relu" not in traced.code
    assert np.array_equal(traced(X).numpy(), ByHand()(X).numpy())


def check_each_node_is_measured_to_its_end() -> None:
    class Net(oneflow.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = oneflow.nn.Linear(400, 400)

        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            return oneflow.relu(self.large(x)).add(1)

    net = Net()
    traced = symbolic_trace(net)
    profiler = ProfilingInterpreter(traced)
    batch = oneflow.randn(2000, 400)
    for _ in range(3):
        assert np.array_equal(profiler.run(batch).numpy(), net(batch).numpy())
    times = profiler.times()
    assert times[0].target == "large", "the product is the work, wherever its kernel is waited for"
    assert {each.op for each in times} == {"call_module", "call_function", "call_method"}
    assert abs(sum(each.share for each in times) - 1) < 1e-6
    assert [each.seconds for each in times] == sorted((each.seconds for each in times), reverse=True)
    assert len(profiler.total) == 3
    assert sum(each.seconds for each in times) < 1.5 * max(profiler.total)
    lines = profiler.summary().split("\n")
    assert lines[0].split() == ["node", "opcode", "target", "mean", "ms", "share"]
    assert lines[1].startswith("large  call_module")


class ConvNorm(oneflow.nn.Module):
    def __init__(self, *, bias: bool = True, affine: bool = True, shared: bool = False) -> None:
        super().__init__()
        self.conv = oneflow.nn.Conv2d(3, 4, 3, bias=bias)
        self.norm = oneflow.nn.BatchNorm2d(4, affine=affine)
        self.shared = shared

    def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
        y = self.conv(x)
        z = oneflow.relu(self.norm(y))
        return z + y if self.shared else z


def trained(net: oneflow.nn.Module) -> oneflow.nn.Module:
    """With statistics and weights as training leaves them."""
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if "num_batches" not in name:
            with oneflow.no_grad():
                tensor.copy_(oneflow.rand(*tensor.shape) + 0.5)
    return net.eval()


IMAGES = oneflow.randn(2, 3, 8, 8)


def check_conv_and_norm_become_one_conv() -> None:
    for bias in (False, True):
        for affine in (False, True):
            net = trained(ConvNorm(bias=bias, affine=affine))
            wanted = net(IMAGES).numpy()
            traced = symbolic_trace(net)
            assert fuse_conv_bn(traced) == 1
            assert not any(isinstance(layer, oneflow.nn.BatchNorm2d) for layer in traced.modules())
            assert np.allclose(traced(IMAGES).numpy(), wanted, rtol=1e-5, atol=1e-5)
            assert np.array_equal(net(IMAGES).numpy(), wanted), "the module that was traced is as it was"


def check_fused_equals_unfused_over_drawn_layers() -> None:
    drawn = random.Random(0)
    for index in range(30):
        dims = 1 + index % 3
        groups = drawn.choice((1, 2))
        channels, outputs = groups * drawn.randint(1, 3), groups * drawn.randint(1, 3)
        conv = getattr(oneflow.nn, f"Conv{dims}d")(
            channels,
            outputs,
            drawn.randint(1, 3),
            stride=drawn.randint(1, 2),
            padding=drawn.randint(0, 2),
            dilation=drawn.randint(1, 2),
            groups=groups,
            bias=drawn.random() < 0.5,
        )
        norm = getattr(oneflow.nn, f"BatchNorm{dims}d")(outputs, eps=drawn.choice((1e-5, 1e-2)), affine=drawn.random() < 0.5)
        net = trained(oneflow.nn.Sequential(conv, norm, oneflow.nn.ReLU()))
        inputs = oneflow.randn(2, channels, *[drawn.randint(6, 9)] * dims)
        traced = symbolic_trace(net)
        assert fuse_conv_bn(traced) == 1, index
        assert np.allclose(traced(inputs).numpy(), net(inputs).numpy(), rtol=1e-4, atol=1e-4), index


def check_a_conv_that_others_read_is_left_alone() -> None:
    net = trained(ConvNorm(shared=True))
    traced = symbolic_trace(net)
    assert fuse_conv_bn(traced) == 0
    assert np.array_equal(traced(IMAGES).numpy(), net(IMAGES).numpy())


def check_training_mode_is_left_alone() -> None:
    assert fuse_conv_bn(symbolic_trace(trained(ConvNorm()).train())) == 0


def check_a_layer_that_is_called_twice_is_left_alone() -> None:
    class Twice(ConvNorm):
        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            return self.norm(self.conv(x)) + self.norm(self.conv(x + 1))

    net = trained(Twice())
    traced = symbolic_trace(net)
    assert fuse_conv_bn(traced) == 0
    assert np.array_equal(traced(IMAGES).numpy(), net(IMAGES).numpy())


def check_rewritten_modules_are_graph_modules_with_valid_graphs() -> None:
    traced = symbolic_trace(trained(ConvNorm()))
    fuse_conv_bn(traced)
    assert isinstance(traced, GraphModule)
    traced.graph.lint()
