from __future__ import annotations

import pytest

from harness.backends.torch_mlir.declared import tensor_claim


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("!torch.vtensor<[2,?],f32>", ("float32", (2, None))),
        ("!torch.vtensor<[],si64>", ("int64", ())),
        ("!torch.vtensor<[0,3],ui8>", ("uint8", (0, 3))),
        ("!torch.vtensor<*,bf16>", ("bfloat16", None)),
        ("!torch.vtensor<[2],unk>", (None, (2,))),
        ("!torch.vtensor<[4],complex<f32>>", ("complex64", (4,))),
        ("!torch.vtensor", (None, None)),
        ("!torch.tensor<[1],i1>", ("bool", (1,))),
        ("!torch.int", None),
        ("!torch.none", None),
    ],
)
def test_a_type_says_what_it_says(text: str, claim: object) -> None:
    assert tensor_claim(text) == claim
