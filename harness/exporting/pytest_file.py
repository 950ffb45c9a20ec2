"""A self-contained pytest file: the whole repro.py, run in a process of its own, expected to fail until the bug is fixed."""

from __future__ import annotations

from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.exporting.names import one_line, snake

# For targets that live in another interpreter than pytest.
INTERPRETERS = {"oneflow": "ONEFLOW_PYTHON"}

_FILE = '''\
"""{title}

{about}
"""

import {standard}
import subprocess
import sys

import pytest

SCRIPT = r{quote}
{script}
{quote}


@pytest.mark.xfail(strict=True, raises=AssertionError, reason={reason!r})
def test_{name}(tmp_path):
    path = tmp_path / "repro.py"
    path.write_text(SCRIPT.lstrip(), encoding="utf-8")
    ran = subprocess.run([{python}, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if ran.returncode == 2:
        pytest.skip(ran.stdout)
    assert ran.returncode == 0, ran.stdout
'''


def pytest_file(entry: Entry, title: str) -> str:
    """The file's text; raises Unsupported where there is no script."""
    if entry.repro is None or entry.verdict is None:
        raise Unsupported("there is no reproducer to run")
    quote = next((each for each in ("'''", '"""') if each not in entry.repro), None)
    if quote is None or entry.repro.rstrip("\n").endswith(("\\", "'", '"')):
        raise Unsupported("repro.py cannot stand in a string: it was changed by hand")
    variable = INTERPRETERS.get(entry.signature.family)
    python = f'os.environ.get("{variable}", sys.executable)' if variable else "sys.executable"
    about = "The bug is known, so this is expected to fail; once it is fixed the test says so."
    if variable:
        about += f"\nThe script runs in {variable}, by default in pytest's own interpreter."
    text = _FILE.format(
        title=one_line(title).replace("\\", "/").replace('"', "'"),
        about=about,
        standard="os" if variable else "@",
        quote=quote,
        script=entry.repro.rstrip("\n"),
        reason=one_line(entry.upstream or title),
        name=snake(f"{entry.signature.family}_{entry.signature.operator}_{entry.signature.kind.value}_{entry.id}"),
        python=python,
    )
    return text.replace("import @\n", "", 1)
