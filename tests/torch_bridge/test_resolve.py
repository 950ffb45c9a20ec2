from __future__ import annotations

import builtins
import operator

import pytest
import torch

from harness.errors import CaptureError, UnknownName
from harness.torch_bridge import resolve

F = torch.nn.functional


def test_every_listed_function_is_found_again_by_its_name() -> None:
    for name, function in resolve.functions().items():
        if name != "builtins.getattr":
            assert resolve.function(resolve.function_name(function)) is function


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.max_pool2d, "torch.nn.functional.max_pool2d"),
        (F.adaptive_max_pool1d, "torch.nn.functional.adaptive_max_pool1d"),
        (F.gelu, "torch.nn.functional.gelu"),
        (torch._C._nn.linear, "torch.nn.functional.linear"),
        (torch.conv2d, "torch.nn.functional.conv2d"),
        (torch.relu, "torch.relu"),
        (torch.relu_, "torch.nn.functional.relu_"),
        (torch.special.expit, "torch.special.expit"),
        (torch.linalg.norm, "torch.linalg.norm"),
        (torch.zeros, "torch.zeros"),
        (torch.sym_max, "torch.sym_max"),
        (operator.getitem, "operator.getitem"),
        (operator.iadd, "operator.iadd"),
        (builtins.getattr, "builtins.getattr"),
        (torch.ops.aten.roll.default, "aten.roll.default"),
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
    ],
)
def test_names_are_what_fx_readers_expect(function: object, name: str) -> None:
    assert resolve.function_name(function) == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "torch.load",
        "torch.save",
        "torch.hub.load",
        "torch.from_file",
        "torch.compile",
        "torch.set_num_threads",
        "torch.manual_seed",
        "torch.ops.load_library",
        "torch.nn.functional.boolean_dispatch",
        "torch.nn.functional.torch.load",
        "builtins.eval",
        "builtins.exec",
        "builtins.__import__",
        "operator.attrgetter",
        "operator.methodcaller",
        "os.system",
        "aten.from_file.default",
        "aten.save.default",
        "aten.set_.source_Storage",
        "aten.__loader__.default",
        "aten.add",
        "aten.add.nope",
        "",
        ".",
    ],
)
def test_nothing_outside_the_lists_resolves(name: str) -> None:
    with pytest.raises(UnknownName):
        resolve.function(name)


def test_a_misspelt_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"torch\.conv2d"):
        resolve.function("torch.conv2")


@pytest.mark.parametrize(
    "name", ["register_hook", "apply_", "numpy", "data_ptr", "set_", "__reduce_ex__", "__class__", "__setstate__", "backward"]
)
def test_methods_that_are_not_tensor_algebra_are_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        resolve.method(torch.ones(1), name)


@pytest.mark.parametrize("receiver", ["text", 3, (1,), {}, torch.float32, torch.nn.ReLU()])
@pytest.mark.parametrize("name", ["__class__", "format", "register_forward_hook", "__init_subclass__"])
def test_other_receivers_have_next_to_no_methods(receiver: object, name: str) -> None:
    with pytest.raises(UnknownName):
        resolve.method(receiver, name)


def test_methods_in_use_are_there() -> None:
    tensor = torch.ones(2, 3)
    for name in ("view", "reshape", "size", "add_", "new_zeros", "to", "__getitem__", "unflatten", "stride", "masked_fill_"):
        assert callable(resolve.method(tensor, name))
    assert resolve.method(tensor.shape, "numel")() == 6


def test_attributes_are_a_closed_list() -> None:
    read = resolve.function("builtins.getattr")
    assert read(torch.ones(2), "shape") == (2,)
    assert read(torch.ones(2).max(0), "indices").item() == 0
    for name in ("__class__", "__dict__", "grad_fn", "_backward_hooks", "__globals__"):
        with pytest.raises(UnknownName):
            read(torch.ones(2), name)


def test_module_classes_are_those_of_torch_nn() -> None:
    assert resolve.module_class("torch.nn.Conv2d") is torch.nn.Conv2d
    assert resolve.module_class_name(torch.nn.LSTM) == "torch.nn.LSTM"
    assert resolve.module_class_name(type("Mine", (torch.nn.ReLU,), {})) is None
    for name in ("torch.nn.Sequential", "torch.nn.DataParallel", "torch.nn.Module", "torch.fx.GraphModule", "Conv2d"):
        with pytest.raises(UnknownName):
            resolve.module_class(name)


def test_functions_of_others_cannot_be_named() -> None:
    with pytest.raises(CaptureError, match="test_resolve"):
        resolve.function_name(test_functions_of_others_cannot_be_named)
    with pytest.raises(CaptureError):
        resolve.function_name(torch.load)
