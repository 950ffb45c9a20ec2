"""What tests/slow/test_oneflow_fx.py runs in OneFlow's interpreter, with flowvision on the path."""

from __future__ import annotations

import importlib.util
import operator
from typing import Any

import numpy as np
import oneflow

from harness.oneflow_fx import ProfilingInterpreter, convert, fuse_conv_bn, prepare_qat, replace_operator, symbolic_trace

if importlib.util.find_spec("flowvision") is not None:
    oneflow.jit._script_if_tracing = lambda function: function  # flowvision 0.2.2 is written for a later OneFlow
    from flowvision.models import resnet18

IMAGES = oneflow.randn(2, 3, 32, 32)


def trained() -> Any:
    """ResNet-18 with statistics as training leaves them."""
    net = resnet18()
    with oneflow.no_grad():
        for name, tensor in net.named_buffers():
            if "running" in name:
                tensor.copy_(oneflow.rand(*tensor.shape) + 0.5)
    return net.eval()


def check_the_trace_computes_the_same() -> None:
    net = trained()
    traced = symbolic_trace(net)
    assert np.array_equal(traced(IMAGES).numpy(), net(IMAGES).numpy())


def check_every_addition_can_be_replaced() -> None:
    traced = symbolic_trace(trained())
    assert replace_operator(traced, (operator.add, operator.iadd, oneflow.add, "add"), oneflow.sub) == 8


def check_the_profile_covers_every_node_and_the_result_is_the_same() -> None:
    net = trained()
    profiler = ProfilingInterpreter(symbolic_trace(net))
    for _ in range(3):
        assert np.array_equal(profiler.run(IMAGES).numpy(), net(IMAGES).numpy())
    times = profiler.times()
    convolutions = sum(each.share for each in times if "conv" in each.target or "downsample.0" in each.target)
    assert convolutions > 0.4, "the convolutions are the work"
    assert times[0].share < 0.5, "and not the first of them alone"


def check_all_twenty_batch_norms_are_folded() -> None:
    net = trained()
    wanted = net(IMAGES).numpy()
    traced = symbolic_trace(net)
    assert fuse_conv_bn(traced) == 20
    assert not any(isinstance(layer, oneflow.nn.BatchNorm2d) for layer in traced.modules())
    found = traced(IMAGES).numpy()
    assert np.abs(found - wanted).max() / np.abs(wanted).max() < 1e-5


def check_it_trains_fake_quantized_and_is_converted() -> None:
    traced = symbolic_trace(trained())
    fuse_conv_bn(traced)
    assert prepare_qat(traced) == 21
    optimizer = oneflow.optim.SGD(traced.parameters(), lr=1e-4)
    labels = oneflow.tensor([1, 2])
    losses = []
    for _ in range(3):
        loss = oneflow.nn.functional.cross_entropy(traced(IMAGES), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.numpy()))
    assert all(np.isfinite(losses))
    assert losses[-1] < losses[0]
    traced.eval()
    wanted = traced(IMAGES).numpy()
    convert(traced)
    assert np.array_equal(traced(IMAGES).numpy(), wanted)
