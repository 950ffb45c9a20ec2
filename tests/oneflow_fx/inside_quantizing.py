from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import oneflow

from harness.oneflow_fx import FakeQuantize, MinMaxObserver, convert, fake_quantize, prepare_qat, symbolic_trace
from harness.oneflow_fx.qat import QuantizedActivation, QuantizedWeight
from harness.oneflow_fx.quantizing import dequantize, quantize

Arrays = Mapping[str, np.ndarray]


def compare(data: Arrays, kind: str, axis: bool) -> int:
    """Value and gradient of every case of a kind against PyTorch's, to the bit."""
    count = 0
    while f"{kind}{count}_x" in data:
        part = {name: data[f"{kind}{count}_{name}"] for name in ("x", "scale", "zero_point", "settings", "value", "gradient", "incoming")}
        low, high, dim = (int(setting) for setting in part["settings"])
        x = oneflow.tensor(part["x"])
        x.requires_grad = True
        scale, zero_point = oneflow.tensor(part["scale"]), oneflow.tensor(part["zero_point"])
        if not axis:
            scale, zero_point = float(part["scale"]), int(part["zero_point"])
        value = fake_quantize(x, scale, zero_point, low, high, axis=dim if axis else None)
        (value * oneflow.tensor(part["incoming"])).sum().backward()
        assert np.array_equal(value.numpy(), part["value"]), (kind, count)
        assert np.array_equal(x.grad.numpy(), part["gradient"]), (kind, count)
        count += 1
    return count


def check_per_tensor_as_pytorch_has_it(data: Arrays) -> None:
    assert compare(data, "tensor", axis=False) == 40


def check_per_channel_as_pytorch_has_it(data: Arrays) -> None:
    assert compare(data, "channel", axis=True) == 40


def check_an_observer_finds_pytorchs_scale_and_zero_point(data: Arrays) -> None:
    for symmetric in (False, True):
        name = f"observer_{'symmetric' if symmetric else 'affine'}"
        observer = MinMaxObserver(symmetric=symmetric)
        for seen in data[f"{name}_x"]:
            observer(oneflow.tensor(seen))
        scale, zero_point = observer.parameters_of()
        assert np.allclose(scale.numpy(), data[f"{name}_scale"], rtol=1e-6)
        assert int(zero_point.numpy()) == int(data[f"{name}_zero_point"])


def check_quantizing_and_back_is_what_faking_gives() -> None:
    x = oneflow.randn(4, 5)
    for axis, scale, zero_point in ((None, 0.1, 3), (0, oneflow.rand(4) + 0.1, oneflow.zeros(4))):
        integers = quantize(x, scale, zero_point, axis=axis)
        assert integers.dtype == oneflow.int8
        back = dequantize(integers, scale, zero_point, axis=axis)
        assert np.array_equal(back.numpy(), fake_quantize(x, scale, zero_point, axis=axis).numpy())


class Net(oneflow.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = oneflow.nn.Conv2d(3, 4, 3, padding=1)
        self.body = oneflow.nn.Sequential(oneflow.nn.Conv2d(4, 4, 1, bias=False), oneflow.nn.ReLU())
        self.linear = oneflow.nn.Linear(4, 2)

    def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
        y = oneflow.relu(self.conv(x))
        return self.linear((self.body(y) + y).mean([2, 3]))


def check_rewriting_puts_in_what_one_would_write_by_hand() -> None:
    net = Net()
    traced = symbolic_trace(net)
    assert prepare_qat(traced) == 3
    images = oneflow.randn(2, 3, 6, 6)
    value = traced(images).numpy()

    def faked(x: oneflow.Tensor, **settings: object) -> oneflow.Tensor:
        return FakeQuantize(MinMaxObserver(**settings))(x)  # type: ignore[arg-type]

    def layer(weight: oneflow.Tensor) -> oneflow.Tensor:
        return faked(weight, symmetric=True, axis=0, channels=weight.shape[0])

    f = oneflow.nn.functional
    y = oneflow.relu(f.conv2d(faked(images), layer(net.conv.weight), net.conv.bias, 1, 1))
    z = oneflow.relu(f.conv2d(faked(y), layer(net.body[0].weight))) + y
    wanted = f.linear(faked(z.mean([2, 3])), layer(net.linear.weight), net.linear.bias)
    assert np.array_equal(value, wanted.numpy())


def check_what_several_layers_read_is_faked_once() -> None:
    class Branches(oneflow.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = oneflow.nn.Linear(3, 2), oneflow.nn.Linear(3, 2)

        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            return self.one(x) + self.two(x)

    traced = symbolic_trace(Branches())
    assert prepare_qat(traced) == 2
    assert sum(isinstance(layer, FakeQuantize) for layer in traced.modules()) == 3


def check_training_lowers_the_loss_and_conversion_keeps_the_values() -> None:
    oneflow.manual_seed(1)
    net = Net()
    traced = symbolic_trace(net)
    prepare_qat(traced)
    optimizer = oneflow.optim.SGD(traced.parameters(), lr=0.1)
    images, wanted = oneflow.randn(8, 3, 6, 6), oneflow.randn(8, 2)
    losses = []
    for _ in range(5):
        loss = ((traced(images) - wanted) ** 2).mean()
        loss.backward()
        assert all(parameter.grad is not None for parameter in traced.parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.numpy()))
    assert losses[-1] < losses[0]
    traced.eval()
    expected = traced(images).numpy()
    assert convert(traced) == 6
    assert np.array_equal(traced(images).numpy(), expected)
    kept = [layer for layer in traced.modules() if isinstance(layer, QuantizedWeight)]
    assert [layer.integers.dtype for layer in kept] == [oneflow.int8] * 3
    assert sum(isinstance(layer, QuantizedActivation) for layer in traced.modules()) == 3
    assert not [name for name, _ in traced.named_parameters() if name.endswith("weight")]


def check_a_frozen_range_does_not_move() -> None:
    fake = FakeQuantize(MinMaxObserver())
    fake(oneflow.tensor([-1.0, 1.0]))
    fake.eval()
    fake(oneflow.tensor([-9.0, 9.0]))
    assert float(fake.observer.greatest.numpy()) == 1.0


def check_oneflows_own_fake_quantization_agrees_inside_the_range() -> None:
    """OneFlow's symmetric google scheme, whose gradient passes everywhere, rounds as ours does."""
    x = oneflow.randn(64)
    observer = MinMaxObserver(-127, 127, symmetric=True)
    observer(x)
    scale, zero_point = observer.parameters_of()
    own = oneflow.nn.FakeQuantization(quantization_formula="google", quantization_bit=8, quantization_scheme="symmetric")
    theirs = own(x, scale.reshape(1), zero_point.reshape(1))
    assert np.allclose(fake_quantize(x, scale, zero_point, -127, 127).numpy(), theirs.numpy(), atol=1e-6)
