"""How a reproducer begins to run: in its own process, or in a child where the bug ends or hangs the process."""

from __future__ import annotations

from harness.model.verdict import Kind
from harness.reproducers.check import PROCESS_KINDS

_IN_PROCESS = """
if __name__ == "__main__":
    sys.exit(run())
"""

# What the child last printed may lack its end: the verdict begins a line of its own.
_IN_CHILD = """
if __name__ == "__main__":
    if "--child" in sys.argv:
        sys.exit(run())
    try:
        child = subprocess.run([sys.executable, __file__, "--child"], timeout={timeout:g}{quiet})
    except subprocess.TimeoutExpired:
        print("\\nBUG: still running after {timeout:g} s")
        sys.exit(1)
    if child.returncode < 0:
        print(f"\\nBUG: the process dies of {{signal.Signals(-child.returncode).name}}")
    sys.exit(child.returncode if child.returncode in (0, 1, 2) else 1)
"""


def entry_point(kind: Kind, *, timeout: float) -> str:
    """The last lines of a script that defines `run`; a child that does not end is given `timeout` seconds."""
    if kind not in PROCESS_KINDS:
        return _IN_PROCESS
    # An endless loop that reports an error each time around prints hundreds of megabytes before its deadline.
    quiet = ", stderr=subprocess.DEVNULL" if kind is Kind.TIMEOUT else ""
    return _IN_CHILD.format(timeout=timeout, quiet=quiet)
