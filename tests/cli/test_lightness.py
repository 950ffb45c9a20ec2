from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "{'torch', 'torch_mlir', 'oneflow', 'hypothesis'}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"]])
def test_asking_for_help_imports_no_torch(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from harness.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "finally:\n"
        f"    print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "[]\n")
    assert process.stdout
