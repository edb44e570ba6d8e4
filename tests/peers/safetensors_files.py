"""safetensors_files.py - .safetensors files written by the format's own library,
and its reading of files of ours.

Run by hand, with safetensors installed: python tests/peers/safetensors_files.py
writes tests/golden/safetensors/ours.safetensors, a tensor {2, 4} of each dtype
that Tide has, and others.safetensors, of those it lacks. Byte k of tensor i is
(7 * i + k) % 100, of a BOOL % 2. With a path it reads that file instead, and
says whether it holds what ours.safetensors does, metadata too.
"""
import ctypes
import os
import sys

from safetensors import TensorSpec, deserialize, safe_open, serialize_file

FOLDER = os.path.join(os.path.dirname(__file__), "..", "golden", "safetensors")
OURS = [("BOOL", "bool", 8), ("U8", "uint8", 8), ("I8", "int8", 8),
        ("I16", "int16", 16), ("U16", "uint16", 16), ("F16", "float16", 16),
        ("BF16", "bfloat16", 16), ("I32", "int32", 32), ("U32", "uint32", 32),
        ("F32", "float32", 32), ("C64", "complex64", 64),
        ("F64", "float64", 64), ("I64", "int64", 64), ("U64", "uint64", 64)]
OTHERS = [("F4", "float4_e2m1fn_x2", 4), ("F8_E5M2", "float8_e5m2", 8),
          ("F8_E4M3", "float8_e4m3fn", 8), ("F8_E8M0", "float8_e8m0fnu", 8)]
METADATA = {"by": "the library, \"quoted\" \\ \n\u00fc"}


def tensors(kinds):
    """{name: (kind, name of its dtype, shape, bytes)}"""
    made = {}
    for i, (kind, dtype, bits) in enumerate(kinds):
        size = bits  # 2 * 4 elements of bits / 8 bytes
        data = bytes((7 * i + k) % (2 if kind == "BOOL" else 100)
                     for k in range(size))
        made["t/" + kind] = (kind, dtype, [2, 4], data)
    made["scalar"] = ("F32", "float32", [], b"\0\0\x80\x3f")
    made["empty"] = ("I64", "int64", [0, 3], b"")
    made["n\u00e4me \"x\"\\\n"] = ("U8", "uint8", [1], b"x")
    return made


def write(name, made):
    held, specs = [], {}
    for key, (kind, dtype, shape, data) in made.items():
        held.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        if kind == "F4":  # the library doubles the last size
            shape = shape[:-1] + [shape[-1] // 2]
        specs[key] = TensorSpec(dtype=dtype, shape=shape, data_len=len(data),
                                data_ptr=ctypes.addressof(held[-1]))
    os.makedirs(FOLDER, exist_ok=True)
    serialize_file(specs, os.path.join(FOLDER, name), METADATA)


def read(path):
    with open(path, "rb") as f:
        have = {name: (t["dtype"], list(t["shape"]), bytes(t["data"]))
                for name, t in deserialize(f.read())}
    want = {name: (kind, shape, data) for name, (kind, _, shape, data)
            in tensors(OURS).items()}
    with safe_open(path, "np") as f:
        same = have == want and f.metadata() == METADATA
    print(path, "holds the tensors" if same else "holds others")
    return 0 if same else 1


def main():
    if len(sys.argv) > 1:
        return read(sys.argv[1])
    write("ours.safetensors", tensors(OURS))
    write("others.safetensors", tensors(OTHERS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
