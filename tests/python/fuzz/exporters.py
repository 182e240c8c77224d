"""Objects that export DLPack as it is written down, in its rarer forms, or wrongly."""
from __future__ import annotations

import ctypes
import gc
import mmap
from typing import Any

import numpy as np

CODES = {"i": 0, "u": 1, "f": 2, "b": 6, "c": 5}  # of dlpack.h; bfloat16 is 4
CPU, CUDA, NOWHERE = 1, 2, 99


TENSOR = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("index", ctypes.c_int32), ("ndim", ctypes.c_int32),
          ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
          ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = [*TENSOR, ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", Deleter),
                ("flags", ctypes.c_uint64), *TENSOR]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


class Injected(Exception):
    """What an exporter raises, which is nobody's fault but its own."""


# Within the protocol: the array is as it is without the exporter.
FAIR = ("plain", "versioned", "no strides", "offset", "no deleter", "no keywords", "old keywords", "temporary", "versioned read-only")
# Beyond it, or what nobody here can read. "huge" is a view whose extents say more than memory holds.
WRONG = ("other name", "none", "number", "raises", "interrupts", "version 2", "no data", "lanes", "complex", "float64", "rank -1",
         "rank 9", "negative extent", "huge", "on a GPU", "on no device", "not callable", "another the second time")


class Exporter:
    """An array as an object that knows DLPack only. `form` is one of FAIR or WRONG."""

    def __init__(self, array: np.ndarray, form: str) -> None:
        self.array, self.form, self.exports, self.calls = array, form, [], 0
        if form == "not callable":
            self.__dict__["__dlpack__"] = 5

    def __dlpack_device__(self) -> tuple[int, int]:
        return {"on a GPU": CUDA, "on no device": NOWHERE}.get(self.form, CPU), 0

    def __dlpack__(self, *args: Any, **keywords: Any) -> Any:
        self.calls += 1
        form = self.form
        if form == "no keywords" and (args or keywords) or form == "old keywords" and set(keywords) - {"stream"}:
            raise TypeError("unexpected keyword")
        if form in ("none", "number"):
            return None if form == "none" else 5
        if form == "raises":
            raise Injected
        if form == "interrupts":
            raise KeyboardInterrupt
        return self.export(form)

    def export(self, form: str) -> Any:
        array = self.array
        versioned = form.startswith("versioned") or form == "version 2"
        managed = (Versioned if versioned else Plain)()
        keep: list[Any] = [array]
        address, strides = array.ctypes.data, [s // array.itemsize for s in array.strides]
        if form in ("no strides", "temporary"):
            array = array.copy()
            keep, address, strides = [array], array.ctypes.data, [s // array.itemsize for s in array.strides]
        record = {"deleted": 0}
        if form == "temporary":  # in pages of its own, which are unmapped by the deleter
            memory = mmap.mmap(-1, max(array.nbytes, 1))
            copy = np.ndarray(array.shape, array.dtype, memory)
            copy[...] = array
            address = copy.ctypes.data
            record["memory"] = memory
            del copy
        shape = list(array.shape)
        if form == "another the second time" and self.calls > 1:
            shape = [extent + 1 for extent in shape]
            address, strides = None, [0] * len(shape)
        managed.code, managed.bits, managed.lanes = CODES.get(array.dtype.kind, 4), 8 * array.itemsize, 1
        if form == "lanes":
            managed.lanes = 4
        elif form == "complex":
            managed.code = CODES["c"]
        elif form == "float64":
            managed.code, managed.bits = CODES["f"], 64
        elif form == "negative extent" and shape:
            shape[0] = -3
        elif form == "huge" and shape:
            shape, strides = [1 << 62, *shape[1:]], [0] * len(shape)
        elif form == "no data":
            address = None
        managed.ndim = {"rank -1": -1, "rank 9": 9}.get(form, len(shape))
        if form == "rank 9":
            shape, strides = [1] * 9, [1] * 9
        managed.device, managed.index = self.__dlpack_device__()
        shapes, steps = ((ctypes.c_int64 * max(len(x), 1))(*x) for x in (shape, strides))
        managed.shape = shapes
        managed.strides = ctypes.POINTER(ctypes.c_int64)() if form == "no strides" else steps
        offset = array.itemsize if form == "offset" and address else 0
        managed.data, managed.offset = (address - offset if address else address), offset

        def delete(_: int) -> None:
            record["deleted"] += 1
            if memory := record.pop("memory", None):
                memory.close()

        deleter = Deleter(delete)
        if form != "no deleter":
            managed.deleter = deleter
        if versioned:
            managed.major, managed.minor = (2, 0) if form == "version 2" else (1, 0)
            managed.flags = int(form == "versioned read-only")
        name = {True: b"dltensor_versioned", False: b"dltensor"}[versioned]
        capsule = _new(ctypes.addressof(managed), b"a tensor" if form == "other name" else name, None)
        record.update(capsule=capsule, managed=managed, keep=[*keep, shapes, steps, deleter])
        self.exports.append(record)
        return capsule

    def complaint(self) -> str:
        """"" or what a consumer did wrong: what was taken is given back once, and nothing else is."""
        gc.collect()
        for record in self.exports:
            taken = (_name(record["capsule"]) or b"").startswith(b"used")
            if record["deleted"] != (taken and self.form != "no deleter"):
                return f"{self.form}: taken: {taken}, deleted {record['deleted']} times"
        return ""
