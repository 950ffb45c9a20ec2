"""Which interpreter runs a target's environment, and the variables that its zygote starts with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from harness.environments.oneflow_env import oneflow_python
from harness.errors import UnknownName

ENVIRONMENTS = ("main", "oneflow")
# A pool of threads that a library starts in the zygote does not exist in its forked children, which then wait for it.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_OUR_INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


def interpreter_for(environment: str, *, threads: int = 1, environ: Mapping[str, str] | None = None) -> tuple[str, dict[str, str]]:
    """The python of an environment (`main`, `oneflow`) and the variables of a process in it.

    Raises TargetUnavailable where the environment has not been built, UnknownName where there is no such one.
    """
    env = dict(os.environ if environ is None else environ)
    if environment == "main":
        python = sys.executable
    elif environment == "oneflow":
        built = oneflow_python(environ)
        python = str(built.python)
        env = built.child_environment({name: value for name, value in env.items() if name not in _OUR_INTERPRETER})
    else:
        raise UnknownName("environment", environment, ENVIRONMENTS)
    for name in _THREAD_VARIABLES:
        env[name] = str(threads)
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle OpenMP threads would spin on a processor that other workers need
    env.setdefault("PYTHONHASHSEED", "0")  # the order of sets of names must not differ between two runs of one case
    return python, env
