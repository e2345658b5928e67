"""The habitat environment: habitat-sim 0.2.2 from PyPI, and what makes its wheel work.

The wheel (the only one of habitat-sim for Linux on PyPI) does not import as it is, for three reasons: it needs a newer
glibc than it says (`older_glibc`), it needs Magnum's Python bindings, which no package holds (``magnum_module.cpp``),
and its pybind11 crashes under NumPy 2 (`fovea_habitat`). `install` mends all three; the simulator stays as it is.
"""
