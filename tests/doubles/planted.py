"""torch-mlir with one pass made wrong on purpose: an IR rewrite after a named pass. Load with `--import tests.doubles.planted`.

`planted:DAMAGE` is torch-mlir:fixpoint whose pass VICTIM damages IR that holds torch.aten.sin.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, ClassVar

from harness.backends.protocol import TargetSpec, register

if TYPE_CHECKING:
    from torch_mlir import ir

    from harness.backends.torch_mlir.fixpoint import PassRunner
    from harness.backends.torch_mlir.pipelines import Emitted

VICTIM = "torch-recompose-complex-ops"  # once in each pipeline, and it changes nothing by itself here
_SIN = re.compile(r"(?P<result>%\w+) = torch\.aten\.sin (?P<operand>%\w+) : (?P<type>\S+) -> \S+\n")
_MARK = "fxdiff.planted"


def _replaced(text: str, made: str) -> str:
    """`text` with its sine replaced; `made` may name RESULT, OPERAND and TYPE."""
    found = _SIN.search(text)
    if found is None:
        return text
    body = made.replace("RESULT", found["result"]).replace("OPERAND", found["operand"]).replace("TYPE", found["type"])
    return text[: found.start()] + body + "\n" + text[found.end() :]


def _dropped(text: str) -> str:
    found = _SIN.search(text)
    if found is None:
        return text
    return text[: found.start()] + re.sub(re.escape(found["result"]) + r"\b", found["operand"], text[found.end() :])


def _grown(text: str, pairs: int) -> str:
    """The sine's operand negated twice, `pairs` times over, so that nothing changes but the size."""
    number, lines, last = text.count("torch.aten.neg"), [], "OPERAND"
    for index in range(2 * pairs):
        lines.append(f"%planted{number + index} = torch.aten.neg {last} : TYPE -> TYPE")
        last = f"%planted{number + index}"
    return _replaced(text, "\n".join([*lines, f"RESULT = torch.aten.sin {last} : TYPE -> TYPE"]))


def _retyped(text: str, old: str, new: str) -> str:
    """Every type that the sine's result reaches, and with it the function's, spelled otherwise."""
    found = _SIN.search(text)
    if found is None:
        return text
    head, sine, tail = text[: found.start()], found[0], text[found.end() :]
    last = head.rindex("->")
    head = head[:last] + head[last:].replace(old, new)
    return head + sine.replace(f"-> {found['type']}", f"-> {found['type'].replace(old, new)}") + tail.replace(old, new)


def damaged(damage: str, text: str) -> str:
    """The IR of `text` damaged; as it is where it holds no sine."""
    match damage:
        case "wrong-constant":
            return _replaced(
                text, "%planted = torch.constant.int 2\nRESULT = torch.aten.mul.Scalar OPERAND, %planted : TYPE, !torch.int -> TYPE"
            )
        case "wrong-operator":
            return _replaced(text, "RESULT = torch.aten.cos OPERAND : TYPE -> TYPE")
        case "dropped-op":
            return _dropped(text)
        case "unexecutable":
            return _replaced(text, "RESULT = torch.aten.mm OPERAND, OPERAND : TYPE, TYPE -> TYPE")
        case "wrong-shape":
            return _retyped(text, "[2,3]", "[2,7]")
        case "wrong-dtype":
            return _retyped(text, "f32>", "f64>")
        case "less-precise":
            return _retyped(text, "[2,3]", "[?,3]")
        case "growth":
            return _grown(text, 2000)
        case "no-convergence":
            return _grown(text, 1)
        case _:
            return text


class PlantedRunner:
    """Runs passes as torch-mlir does, and damages what the victim leaves."""

    def __init__(self, inner: PassRunner, damage: str) -> None:
        self.inner = inner
        self.damage = damage

    def __call__(self, module: ir.Module, text: str) -> tuple[ir.Module, tuple[Emitted, ...]]:
        from harness.backends.torch_mlir.passes import name_of
        from harness.backends.torch_mlir.pipelines import Emitted, StageFailure

        module, emitted = self.inner(module, text)
        source = module.operation.get_asm()
        if name_of(text) != VICTIM or "torch.aten.sin " not in source:
            return module, emitted
        error = Emitted("error", "planted: the sizes do not match")
        if self.damage == "silent-error":
            return module, (*emitted, error)
        if self.damage == "failure":
            raise StageFailure(VICTIM, (error,))
        if self.damage == "slow":
            until = time.process_time() + 0.2
            while time.process_time() < until:
                pass
            return module, emitted
        if self.damage == "invalid-ir":
            _break(module)
            return module, emitted
        if self.damage == "cycle":
            _toggle(module)
            return module, emitted
        return self.inner.tools.parse(damaged(self.damage, source)), emitted

    @property
    def tools(self) -> object:
        return self.inner.tools


def _break(module: ir.Module) -> None:
    """Give the sine a type that its users do not take; nothing verifies this but the verifier."""
    from torch_mlir import ir

    with module.context:
        for operation in module.body.operations[0].regions[0].blocks[0].operations:
            if operation.operation.name == "torch.aten.sin":
                operation.results[0].set_type(ir.Type.parse("!torch.int"))


def _toggle(module: ir.Module) -> None:
    from torch_mlir import ir

    with module.context:
        function = module.body.operations[0]
        if _MARK in function.attributes:
            del function.attributes[_MARK]
        else:
            function.attributes[_MARK] = ir.UnitAttr.get()


DAMAGES = (
    "wrong-constant",
    "wrong-operator",
    "dropped-op",
    "unexecutable",
    "wrong-shape",
    "wrong-dtype",
    "less-precise",
    "growth",
    "no-convergence",
    "silent-error",
    "failure",
    "invalid-ir",
    "cycle",
)


class PlantedBackend:
    """torch-mlir:fixpoint with one damage."""

    damage: ClassVar[str]

    def __new__(cls) -> PlantedBackend:
        from harness.backends.torch_mlir.following import FixpointBackend

        damage = cls.damage

        class Backend(FixpointBackend):
            def runner(self) -> PassRunner:
                return PlantedRunner(super().runner(), damage)  # type: ignore[return-value]

        return Backend()  # type: ignore[return-value]


def _name(damage: str) -> str:
    return "".join(part.capitalize() for part in damage.split("-"))


for _damage in DAMAGES:
    globals()[_name(_damage)] = type(_name(_damage), (PlantedBackend,), {"damage": _damage})
    register(
        TargetSpec(
            f"planted:{_damage}",
            f"tests.doubles.planted:{_name(_damage)}",
            f"torch-mlir:fixpoint with {VICTIM} made wrong",
            zygote="torch-mlir",
            parent_zygote="torch",
            family="torch-mlir",
            follow_run={"pipeline": "all"},
        )
    )
