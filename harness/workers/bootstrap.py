"""Start a process of ours in any interpreter: load the package `harness` from its folder, and nothing else of ours.

Run as `python bootstrap.py CONTROL_FD SUPERVISOR_PID` for a zygote, or as `python bootstrap.py MODULE:FUNCTION ARGUMENT...` for
a function that takes the arguments as text. The other interpreter must not see this one's site-packages, so
`harness` comes in by its location and never by sys.path.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys


def _load_harness() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # or `import zygote` would work
    folder = os.path.dirname(here)
    spec = importlib.util.spec_from_file_location("harness", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["harness"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_harness()
    if ":" in sys.argv[1]:
        name, _, function = sys.argv[1].partition(":")
        getattr(importlib.import_module(name), function)(*sys.argv[2:])
        sys.exit()
    from harness.workers.zygote import run_zygote

    run_zygote(control_fd=int(sys.argv[1]), parent=int(sys.argv[2]))
