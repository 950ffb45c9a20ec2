"""The systems under test, each behind the protocol in `harness.backends.protocol`."""
