"""repro.py for what no bare script can show: third-party targets, and bugs that kill a later case. It replays through fxdiff."""

from __future__ import annotations

from harness.backends.protocol import TargetSpec
from harness.corpus.files import pack_case
from harness.minimize.edits import literal_case
from harness.model.case import Case
from harness.model.verdict import Verdict
from harness.reproducers.check import docstring

_SCRIPT = '''\
{docstring}

import sys

try:
    from harness.backends.protocol import TargetSpec, register
    from harness.cli.session import Session
    from harness.corpus.files import unpack_case
    from harness.engine.evaluate import Evaluator
    from harness.engine.investigate import after
    from harness.errors import TargetUnavailable
    from harness.model.codec import to_wire
    from harness.model.outcome import Job
except ImportError as error:
    print(f"cannot run: {{error}}")
    sys.exit(2)

TARGET = {spec}
KIND = {kind!r}
CASE = rb"""
{case}"""
{victim}

def main():
    register(TARGET)
    try:
        session = Session.open([TARGET.name])
    except TargetUnavailable as error:
        print(f"cannot run: {{error}}")
        return 2
    try:
        runner = session.runner(0)
        evaluator = Evaluator(runner)
        return max(once(runner, evaluator) for _ in range({tries}))
    finally:
        session.close()


{once}

if __name__ == "__main__":
    sys.exit(main())
'''

_ALONE = """\
def once(runner, evaluator):
    evaluation = evaluator.evaluate(unpack_case(CASE), [TARGET], fresh=True, patience={patience})
    verdicts = [verdict for verdict in evaluation.of(TARGET.name) if verdict.kind.value == KIND]
    if verdicts:
        print(f"BUG: {{verdicts[0].message}}")
        return 1
    observed = evaluation.observed.get(TARGET.name, evaluation.reference)
    print(f"{{observed.target}}: {{observed.status.value}} {{observed.message}}")
    return 0 if observed.status.value == "ok" else 2
"""

_VICTIM = '''\
def once(runner, evaluator):
    """Run both cases in one process: the first leaves it broken, the second dies of it, if not at its first run."""
    cases = [unpack_case(CASE), unpack_case(VICTIM)]
    given = [evaluator.witness_bytes(TARGET, evaluator.reference(case)) for case in cases]
    observed = runner.replay(after(*(Job(to_wire(case), TARGET.name, reference=known) for case, known in zip(cases, given))))
    died = observed.status.value in ("crash", "timeout", "oom")
    print(f"{{'BUG: ' if died else ''}}the later case: {{observed.status.value}} {{observed.message}}")
    return 1 if died else 0 if observed.status.value == "ok" else 2
'''


def repro_source(
    case: Case, verdict: Verdict, spec: TargetSpec, *, victim: Case | None = None, tries: int = 1, patience: float = 1.0, note: str = ""
) -> str:
    """repro.py with the same exit codes as the others; it needs fxdiff and the target's own module."""
    return _SCRIPT.format(
        docstring=docstring(verdict, note),
        spec=repr(spec),
        kind=verdict.kind.value,
        case=pack_case(literal_case(case)).decode("ascii"),
        victim=f'VICTIM = rb"""\n{pack_case(literal_case(victim)).decode("ascii")}"""\n' if victim is not None else "",
        once=(_VICTIM if victim is not None else _ALONE).format(patience=patience),
        tries=tries,
    )
