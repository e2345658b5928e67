"""``import fovea_habitat`` gives ``fovea_habitat.habitat_sim``: habitat-sim 0.2.2's wheel, on NumPy 2 and old glibc.

Copied into the environment's site-packages by ``install.py``; never imported in Fovea's own interpreter.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from pathlib import Path

os.environ.setdefault("MAGNUM_LOG", "quiet")  # both are read when the extension is loaded
os.environ.setdefault("HABITAT_SIM_LOG", "quiet")

_symbols = Path(__file__).with_name("libfovea_older_glibc.so")
if _symbols.exists():
    ctypes.CDLL(str(_symbols), mode=ctypes.RTLD_GLOBAL)  # for all, and before the extension, which looks them up

import numpy._core.multiarray as _new  # noqa: E402

COPY_INTO_OLD, COPY_INTO_NEW = 82, 50  # where PyArray_CopyInto stands in the function table of NumPy 1 and of NumPy 2
TABLE_ENTRIES = 370  # of NumPy 2's table


def _offer_old_table() -> ctypes.Array[ctypes.c_void_p]:
    """Hand the extension a function table as of NumPy 1, which is the one that its pybind11 knows.

    Of the functions it uses only PyArray_CopyInto has moved; unless it stands in its old place, setting a sensor's
    resolution crashes. pybind11 reads the table once, from ``numpy.core.multiarray``, at the first array it makes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old name is deprecated
        import numpy.core.multiarray as old
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    theirs = (ctypes.c_void_p * TABLE_ENTRIES).from_address(pointer(_new._ARRAY_API, None))
    ours = (ctypes.c_void_p * TABLE_ENTRIES)(*theirs)
    ours[COPY_INTO_OLD] = theirs[COPY_INTO_NEW]
    old._ARRAY_API = capsule(ctypes.addressof(ours), None, None)
    return ours


_table = _offer_old_table()  # kept alive: the capsule only points at it

import habitat_sim  # type: ignore[import-not-found]  # noqa: E402

habitat_sim.CameraSensorSpec().resolution = [8, 8]  # makes the extension read the table now
