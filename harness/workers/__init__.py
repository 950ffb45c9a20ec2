"""Isolation: targets run in processes forked from warmed parents, so that they may crash, hang or leak."""
