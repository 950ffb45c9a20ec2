"""The output folder of a run: claimed for one run at a time, with what an earlier run left in it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from harness.errors import UsageError

LOG = "events.ndjson"
SUMMARY = "summary.json"
FINDINGS = "findings"
UNPROVEN = "unproven"


class RunDirectory:
    """A claimed output folder; released by `close`, or by the kernel when the process dies."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / FINDINGS).mkdir(exist_ok=True)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(
                f"cannot use {path} as the output folder: {error.strerror}; name a writable one with --output, or free some space"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise UsageError(f"{path} is in use by another fxdiff run; name another folder with --output") from error
            raise UsageError(f"cannot lock {path}: {error.strerror}") from error
        if self.log.exists() and self.log.stat().st_size and not resume:
            os.close(self._lock)
            raise UsageError(f"{path} holds an earlier run; go on with it by --resume, or name another folder with --output")

    @property
    def log(self) -> Path:
        """The event log."""
        return self.path / LOG

    @property
    def summary(self) -> Path:
        """The summary."""
        return self.path / SUMMARY

    @property
    def findings(self) -> Path:
        """The folder of findings."""
        return self.path / FINDINGS

    @property
    def unproven(self) -> Path:
        """The folder of findings whose reproducer did not show them."""
        return self.path / UNPROVEN

    def write_summary(self, text: str) -> None:
        """Write the summary, whole or not at all; raises UsageError where the disk refuses it."""
        fresh = self.path / f".{SUMMARY}"
        try:
            fresh.write_text(text, encoding="ascii")
            os.replace(fresh, self.summary)
        except OSError as error:
            raise UsageError(f"cannot write {self.summary}: {error.strerror}") from error

    def close(self) -> None:
        """Let others use the folder."""
        os.close(self._lock)
