"""A script that imports torch and nothing of fxdiff: it runs each named model in OneFlow and in eager, and compares.

Inference, then three steps of training, each with outputs, gradients, parameters and buffers. `--dynamic` marks sizes as symbolic,
`--fullgraph` lets nothing run in torch.
"""

import copy
import importlib.util
import sys
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

MODELS = Path(__file__).parents[2] / "models"


def load(name):
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loss(output):
    terms = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return sum((leaf * torch.arange(leaf.numel()).view(leaf.shape).remainder(7).sub(3)).sum() for leaf in terms)


def close(actual, expected, tolerance):
    assert pytree.tree_structure(actual) == pytree.tree_structure(expected)
    torch.testing.assert_close(pytree.tree_leaves(actual), pytree.tree_leaves(expected), rtol=tolerance, atol=tolerance)


def check(name, **how):
    torch.manual_seed(0)
    source = load(name)
    model, inputs = source.build(), source.inputs()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="oneflow", **how)
    model.eval()
    twin.eval()
    with torch.no_grad():
        close(compiled(*inputs), twin(*inputs), 1e-4)
    model.train()
    twin.train()
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3, momentum=0.9) for each in (model, twin)]
    for _ in range(3):
        outputs = []
        for each, optimizer in zip((compiled, twin), optimizers, strict=True):
            outputs.append(each(*inputs))
            optimizer.zero_grad()
            loss(outputs[-1]).backward()
            optimizer.step()
        close(outputs[0], outputs[1], 1e-3)
        for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
            scale = float(its.grad.abs().max()) + 1e-2
            torch.testing.assert_close(mine.grad / scale, its.grad / scale, rtol=1e-3, atol=1e-3)
        close(dict(model.state_dict()), dict(twin.state_dict()), 1e-3)
    print(f"{name}: inference and three steps of training agree", flush=True)


if __name__ == "__main__":
    assert "harness" not in sys.modules
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    how = {"dynamic": True} if "--dynamic" in sys.argv else {}
    for each in names:
        torch._dynamo.reset()
        check(each, fullgraph="--fullgraph" in sys.argv, **how)
