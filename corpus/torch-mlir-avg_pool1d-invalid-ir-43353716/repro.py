"""torch-mlir:linalg: a pass left invalid IR in stage linalg at avg_pool1d_1: 'linalg.pooling_nchw_sum' op
expected operand #0 rank (3) to match the result rank of indexing_map (4)

Exits 1 while the bug exists, 0 once it is fixed, 2 if it cannot run.
Seen with numpy 2.4.6, torch 2.13.0+cpu, torch-mlir 20261001 on linux-x86_64.
"""

import sys

try:
    import torch
    import torch.nn.functional as F
    from torch_mlir import fx
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(2)


class M(torch.nn.Module):
    def forward(self, x):
        return F.avg_pool1d(x, 1)


x = torch.tensor([[0.0]])
inputs = (x,)


def lower(output_type, **options):
    return fx.export_and_import(M(), *inputs, output_type=output_type, **options)


def run():
    try:
        lower("raw")
    except Exception as error:
        print(f"cannot run: torch.export or torch-mlir's importer refuses this module: {error}")
        return 2
    try:
        lower("linalg-on-tensors")
    except Exception as error:
        print(f"BUG: torch-mlir fails: {error}")
        return 1
    print("fixed: torch-mlir lowers it to linalg-on-tensors")
    return 0


if __name__ == "__main__":
    sys.exit(run())
