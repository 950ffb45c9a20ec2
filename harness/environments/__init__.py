"""What fxdiff needs on this machine: pinned versions, interpreters, stubs, and how to say that something is missing."""
