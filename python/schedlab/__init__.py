"""A laboratory for the Linux fair scheduler: machines, kernels, loads, and thousands of seeds."""

from schedlab import pelt

__all__ = ["pelt"]
