"""A laboratory for the Linux fair scheduler: machines, kernels, loads, and thousands of seeds."""
