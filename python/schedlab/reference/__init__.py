"""Slow, plain Python twins of the core, written to be read: the tests hold the core to them."""
