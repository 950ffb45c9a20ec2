"""A finding in the form that somebody else needs: a script, an issue, a pytest file, IR, a test of the system's own suite."""

from harness.exporting.forms import FORMS, Exported, export

__all__ = ["FORMS", "Exported", "export"]
