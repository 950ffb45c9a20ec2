"""The engine: draws cases, has them run, judges, investigates, and tells what happened as events."""
