from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch_mlir._mlir_libs

from harness.backends.torch_mlir.backend import toolchain
from harness.backends.torch_mlir.passes import PIPELINES, name_of, pipeline
from harness.errors import UnknownName

OPT = Path(torch_mlir._mlir_libs.__path__[0]) / "torch-mlir-opt"
ROLL = """
module {
  func.func @main(%arg0: !torch.vtensor<[3,1,2],f32>) -> !torch.vtensor<[3,1,2],f32> {
    %int2 = torch.constant.int 2
    %int-1 = torch.constant.int -1
    %int0 = torch.constant.int 0
    %0 = torch.prim.ListConstruct %int2, %int-1 : (!torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.prim.ListConstruct %int0, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
    %2 = torch.aten.roll %arg0, %0, %1 : !torch.vtensor<[3,1,2],f32>, !torch.list<int>, !torch.list<int> -> !torch.vtensor<[3,1,2],f32>
    %3 = torch.aten.softmax.int %2, %int0, %none : !torch.vtensor<[3,1,2],f32>, !torch.int, !torch.none -> !torch.vtensor<[3,1,2],f32>
    return %3 : !torch.vtensor<[3,1,2],f32>
  }
}
""".replace("    %int0 =", "    %none = torch.constant.none\n    %int0 =")


def flattened(printed: str) -> list[str]:
    """The bare pass names of what `--dump-pass-pipeline` prints."""
    body = printed.partition("builtin.module(")[2]
    plain = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\{[^{}]*\}[^{}]*\}", "", body))
    return [name for name in re.findall(r"[\w.-]+", plain) if name != "func.func"]


@pytest.mark.parametrize("legal_ops", [(), ("aten.roll",)])
@pytest.mark.parametrize("name", PIPELINES)
def test_our_transcription_is_what_the_name_stands_for(name: str, legal_ops: tuple[str, ...], tmp_path: Path) -> None:
    ours = pipeline(name, legal_ops=legal_ops)
    source = tmp_path / "empty.mlir"
    source.write_text("module {}\n")
    spelled = f"builtin.module({ours.named})"
    ran = subprocess.run([OPT, f"-pass-pipeline={spelled}", "--dump-pass-pipeline", source], capture_output=True, text=True, check=True)
    assert flattened(ran.stderr) == [name_of(text) for text in ours.passes]
    assert ("legal-ops={aten.roll}" in ran.stderr) == bool(legal_ops)


@pytest.mark.parametrize("name", PIPELINES)
def test_pass_by_pass_gives_what_the_named_pipeline_gives(name: str) -> None:
    tools, ours = toolchain(), pipeline(name)
    whole, singly = tools.parse(ROLL), tools.parse(ROLL)
    tools.run(whole, (ours.named,), stage="whole")
    for text in ours.passes:
        tools.run(singly, (text,), stage=text)
    assert singly.operation.get_asm() == whole.operation.get_asm()
    assert "torch.aten.roll" not in whole.operation.get_asm()


def test_an_operator_may_be_spared() -> None:
    tools = toolchain()
    module = tools.parse(ROLL)
    for text in pipeline("fx", legal_ops=("aten.roll",)).passes:
        tools.run(module, (text,), stage=text)
    assert "torch.aten.roll" in module.operation.get_asm()
    assert "torch.aten.softmax.int" not in module.operation.get_asm()


def test_an_unknown_pipeline_is_named() -> None:
    with pytest.raises(UnknownName, match="'simplify'"):
        pipeline("simplify")


@pytest.mark.parametrize(
    ("text", "name"),
    [("func.func(canonicalize)", "canonicalize"), ("inline", "inline"), ("func.func(a-b{legal-ops=aten.roll})", "a-b")],
)
def test_the_bare_name_of_a_pass(text: str, name: str) -> None:
    assert name_of(text) == name
