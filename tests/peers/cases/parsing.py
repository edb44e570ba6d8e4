"""Examples, tensors and tables as bytes, read.

Messages are written here byte by byte, so that there are some that no library
writes: numbers one by one, unknown fields, keys twice, lists in two parts.

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import struct
import zlib

import numpy as np

from .base import L, bad, case, f32, f64, i32, i64, op, string, u8


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def floats(*values, packed=True):
    if packed:
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    one = [b"\x0d" + struct.pack("<f", v) for v in values]
    return field(2, b"".join(one))


def ints(*values, packed=True):
    if packed:
        return field(3, field(1, b"".join(map(varint, values))))
    return field(3, b"".join(b"\x08" + varint(v) for v in values))


def texts(*values):
    return field(1, b"".join(field(1, v) for v in values))


def entry(key, feature):
    return field(1, field(1, key) + field(2, feature))


def example(*entries):
    return field(1, b"".join(entry(k, f) for k, f in entries))


A = example((b"x", floats(1.5, -2)), (b"i", ints(3, -1, 2**40)),
            (b"s", texts(b"ab", b"", b"\xc3\0")))
B = example((b"s", texts(b"q")), (b"i", ints()), (b"x", floats(7, 8)),
            (b"other", texts(b"this")))
C = example((b"x", floats(0.25, 0.5)))
BARE = example((b"x", floats(1, 2, packed=False)),
               (b"i", ints(300, -7, packed=False)))
TWICE = example((b"x", floats(1, 2)), (b"i", ints(5)), (b"x", floats(3, 4)),
                (b"x", b""))
PARTS = field(1, entry(b"x", floats(1, 2))) + field(1, entry(b"i", ints(4)))
MORE = A + b"\x10\x05" + field(9, b"unknown")
KEY = "\u03bc\u00df key".encode()
UNICODE = example((KEY, ints(1)), (b"", ints(2)), (b"x", floats(5, 6)))
LONG = example((b"i", ints(*range(10), 2**62, 200, 201, *range(9))),
               (b"x", floats(1, 2, 3, 4)))

NONE = string([])
S = [string(b"s")]
XIS = dict(sparse_types=["int64", "string"], dense_shapes=[[2]])
X = dict(sparse_types=[], dense_shapes=[[2]])


def keys(*names):
    return L(*[string(n) for n in names])


def batch(*examples):
    return string(list(examples))


def dense(serialized, key, default, shape, names=NONE):
    return (serialized, names, L(), keys(key), L(default)), dict(
        sparse_types=[], dense_shapes=[shape])


def good(made, how=case):
    inputs, attrs = made
    return how(*inputs, **attrs)


def refused(says, made):
    inputs, attrs = made
    return bad(says, *inputs, **attrs)


NEED = f32([])
op("ParseExample",
   case(batch(A, B, C), NONE, keys(b"i", b"s"), keys(b"x"), L(NEED), **XIS),
   case(batch(A, BARE, TWICE, PARTS, MORE), string([b"a"] * 5),
        keys(b"s", b"i"), keys(b"x"), L(NEED),
        sparse_types=["string", "int64"], dense_shapes=[[2]]),
   case(batch(UNICODE), NONE, keys(KEY, b""), keys(b"x"), L(NEED),
        sparse_types=["int64", "int64"], dense_shapes=[[2, 1]]),
   good(dense(batch(A, b"", C), b"x", f32([9, 8]), [2])),
   good(dense(batch(A, b""), b"s", string([b"d", b"ee", b"f"]), [3])),
   good(dense(batch(A, B, b""), b"i", i64(-1), [None])),
   good(dense(batch(C, LONG, b"", A), b"x", f32([0.5]), [None, 2])),
   good(dense(batch(b"", A, B), b"s", string(b"--"), [None])),
   case(NONE, NONE, keys(b"i"), keys(b"x", b"s"), L(NEED, string(b"")),
        sparse_types=["int64"], dense_shapes=[[2], [None]]),
   case(batch(example((b"i", ints(7)))), NONE, L(), keys(b"i"), L(i64([])),
        sparse_types=[], dense_shapes=[[]]),
   refused("\"n1\"", dense(batch(C, b""), b"x", NEED, [2],
                           string([b"n0", b"n1"]))),
   refused("takes 3", dense(batch(C), b"x", NEED, [3])),
   refused("a row has 2", dense(batch(C, A), b"i", i64([0]), [None, 2])),
   refused("of float32, not of int64", dense(batch(A), b"x", i64([]), [2])),
   refused("no whole Example", dense(batch(A, A[:-1]), b"x", NEED, [2])),
   refused("one element", dense(batch(C), b"x", NEED, [None])),
   refused("dense_defaults[0]", dense(batch(C), b"x", f32([1]), [2])),
   refused("dense_shapes[0]", dense(batch(C), b"x", f32(1), [1, None])),
   refused("serialized", dense(string(C), b"x", NEED, [2])),
   bad("of float32, not of int64", batch(B, A), NONE, keys(b"x"), L(), L(),
       sparse_types=["int64"], dense_shapes=[]),
   bad("dense_shapes", batch(A), NONE, L(), keys(b"x"), L(NEED),
       sparse_types=[], dense_shapes=[]),
   dynamic=True)

BOTH = dict(num_sparse=1, sparse_types=["int64"], dense_shapes=[[2]],
            ragged_value_types=["string", "float32"],
            ragged_split_types=["int64", "int32"])
ONLY = dict(num_sparse=0, sparse_types=[], dense_shapes=[[2]],
            ragged_value_types=[], ragged_split_types=[])


def v2(serialized, sparse, dense_, ragged, *defaults, names=NONE):
    return (serialized, names, string(sparse), string(dense_), string(ragged),
            L(*defaults))


op("ParseExampleV2",
   case(*v2(batch(A, B, C), [b"i"], [b"x"], [b"s", b"y"], NEED), **BOTH),
   case(*v2(string(A), [b"i"], [b"x"], [b"s", b"y"], NEED), **BOTH),
   case(*v2(string(A), [b"i"], [b"x"], [b"s", b"y"], NEED, names=string(b"n")),
        **BOTH),
   case(*v2(NONE, [b"i"], [b"x"], [b"s", b"y"], NEED), **BOTH),
   case(*v2(string(b""), [b"i"], [b"x"], [b"s", b"y"], f32([1, 2])), **BOTH),
   case(*v2(batch(LONG, b"", A), [], [], [b"i", b"x"]), num_sparse=0,
        sparse_types=[], dense_shapes=[],
        ragged_value_types=["int64", "float32"],
        ragged_split_types=["int32", "int64"]),
   case(*v2(string(A), [], [b"i"], [], i64(0)),
        **dict(ONLY, dense_shapes=[[None]])),
   case(*v2(string(b""), [], [b"s"], [], string(b"")),
        **dict(ONLY, dense_shapes=[[None]])),
   bad("missing", *v2(string(b""), [], [b"x"], [], NEED), **ONLY),
   bad("missing", *v2(batch(A, b""), [], [b"x"], [], NEED), **ONLY),
   bad("takes 2", *v2(string(LONG), [], [b"x"], [], NEED), **ONLY),
   bad("names", *v2(string(A), [], [b"x"], [], NEED, names=string([b"n"])),
       **ONLY),
   bad("serialized", *v2(string([[A]]), [], [b"x"], [], NEED), **ONLY),
   bad("dense_keys", *v2(batch(A), [], [b"x", b"y"], [], NEED), **ONLY),
   bad("ragged_split_types", *v2(batch(A), [], [b"x"], [b"s"], NEED),
       **dict(ONLY, ragged_value_types=["string"])),
   bad("of string, not of int64", *v2(batch(A), [], [], [b"s"]),
       **dict(ONLY, dense_shapes=[], ragged_value_types=["int64"],
              ragged_split_types=["int64"])),
   dynamic=True)

ONE = dict(num_sparse=2, sparse_keys=["i", "s"], dense_keys=["x"], **XIS)
JUST = dict(num_sparse=0, sparse_keys=[], sparse_types=[])
op("ParseSingleExample",
   *[case(string(e), L(f32([4, 5])), **ONE) for e in (A, B, C, b"", TWICE)],
   case(string(LONG), L(i64(0), f32(1)), dense_keys=["i", "x"],
        dense_shapes=[[None], [None, 2]], **JUST),
   case(string(b""), L(string([b"a", b"b"])), dense_keys=["s"],
        dense_shapes=[[2]], **JUST),
   bad("missing", string(b""), L(NEED), **ONE),
   bad("takes 2", string(LONG), L(NEED), **ONE),
   bad("of int64, not of float32", string(A), L(NEED), dense_keys=["i"],
       dense_shapes=[[3]], **JUST),
   bad("serialized", batch(A), L(NEED), **ONE),
   bad("a row has 3", string(LONG), L(i64(0)), dense_keys=["i"],
       dense_shapes=[[None, 3]], **JUST),
   bad("of string, not of float32", string(A), L(NEED), dense_keys=["s"],
       dense_shapes=[[3]], **JUST),
   bad("takes 3", string(B), L(string([])), dense_keys=["s"],
       dense_shapes=[[3]], **JUST),
   case(string(A), L(), dense_keys=[], dense_shapes=[], **JUST),
   bad("one element", string(A), L(NEED), dense_keys=["x"],
       dense_shapes=[[None]], **JUST),
   bad("sparse_keys", string(A), L(), num_sparse=1, sparse_keys=[],
       sparse_types=["int64"], dense_keys=[], dense_shapes=[]),
   dynamic=True)

# ---- sequences ---------------------------------------------------------------

def sequence(context, lists):
    maps = [(k, b"".join(field(1, f) for f in steps)) for k, steps in lists]
    return example(*context) + field(2, b"".join(entry(*m) for m in maps))


SA = sequence([(b"x", floats(1, 2)), (b"s", texts(b"ab", b""))],
              [(b"f", [floats(1, 2), floats(3, 4), floats(5, 6)]),
               (b"i", [ints(1), ints(2, 2**40), ints()]),
               (b"t", [texts(b"moon", b"q"), texts(b"", b"tide")])])
SB = sequence([(b"i", ints(-1))], [(b"other", [ints(3)]), (b"i", []),
                                   (b"f", [floats(9, 8)]), (b"t", [])])
NO_LIST = sequence([], [(b"i", [b"", ints(3, packed=False)])])
AGAIN = sequence([], [(b"i", [ints(1)]), (b"i", [ints(2), ints(3, 4)])])
SPLIT = sequence([], [(b"i", [ints(1)])]) + sequence([], [(b"i", [ints(7)])])
MORE_SEQ = AGAIN + b"\x18\x05" + field(9, b"?")
PAIR = sequence([], [(b"f", [floats(1, 2)])])
SEQ = dict(context_sparse_types=["string"], context_dense_shapes=[[2]],
           feature_list_sparse_types=["int64"], Nfeature_list_dense=2,
           feature_list_dense_types=["float32", "string"],
           feature_list_dense_shapes=[[2], [2, 1]])
ATTRS = ("context_sparse", "context_dense", "feature_list_sparse",
         "feature_list_dense")
FULL = dict(SEQ, Ncontext_sparse=1, Ncontext_dense=1, Nfeature_list_sparse=1,
            feature_list_dense_missing_assumed_empty=[],
            **{f"{a}_keys": k for a, k in
               zip(ATTRS, (["s"], ["x"], ["i"], ["f", "t"]))})
BUT_T = dict(FULL, feature_list_dense_missing_assumed_empty=["t", "f"])
BARE_SEQ = dict(Ncontext_sparse=0, Ncontext_dense=0, Nfeature_list_sparse=0,
                Nfeature_list_dense=0, context_sparse_types=[],
                context_dense_shapes=[], feature_list_sparse_types=[],
                feature_list_dense_types=[], feature_list_dense_shapes=[],
                feature_list_dense_missing_assumed_empty=[],
                **{f"{a}_keys": [] for a in ATTRS})
JUST_I = dict(BARE_SEQ, Nfeature_list_sparse=1,
              feature_list_sparse_types=["int64"],
              feature_list_sparse_keys=["i"])


def dense_list(key, dtype, shape):
    return dict(BARE_SEQ, Nfeature_list_dense=1,
                feature_list_dense_types=[dtype],
                feature_list_dense_shapes=[shape],
                feature_list_dense_keys=[key])


D2 = L(f32([7, 8]))
op("ParseSequenceExample",
   case(batch(SA, SB), NONE, D2, **FULL),
   case(batch(SB, b"", SA), string([b"a", b"b", b"c"]), D2, **BUT_T),
   case(batch(NO_LIST, AGAIN, SPLIT, b"", MORE_SEQ), NONE, L(), **JUST_I),
   bad("\"n1\"", batch(SPLIT, b""), string([b"n0", b"n1"]), L(),
       **dense_list("i", "int64", [])),
   bad("is missing", batch(b""), NONE, L(), **dense_list("i", "int64", [])),
   bad("takes 3", batch(PAIR), NONE, L(), **dense_list("f", "float32", [3])),
   bad("step 0: has 0 values", batch(NO_LIST), NONE, L(),
       **dense_list("i", "int64", [])),
   bad("of float32, not of int64", batch(PAIR), NONE, L(),
       **dict(JUST_I, feature_list_sparse_keys=["f"])),
   bad("no whole", batch(PAIR, PAIR[:-1]), NONE, L(), **JUST_I),
   bad("feature_list_dense_shapes[0]", NONE, NONE, L(),
       **dense_list("f", "float32", [None])),
   bad("names must", batch(PAIR, PAIR), string([b"n"]), L(), **JUST_I),
   bad("serialized", string(AGAIN), NONE, L(), **JUST_I),
   bad("context_dense_defaults[0]", NONE, NONE, L(f32([7])), **FULL),
   bad("feature_list_sparse_keys", NONE, NONE, L(),
       **dict(JUST_I, feature_list_sparse_keys=[])),
   dynamic=True)

SEQ2 = dict(SEQ, Ncontext_sparse=1, Nfeature_list_sparse=1,
            Nfeature_list_dense=1, feature_list_dense_types=["string"],
            feature_list_dense_shapes=[[2, 1]])
RAG = dict(context_ragged_value_types=["int64"],
           context_ragged_split_types=["int32"],
           feature_list_ragged_value_types=["float32"],
           feature_list_ragged_split_types=["int32"])
KEYS2 = [string([k]) for k in (b"s", b"x", b"i", b"i", b"t", b"f")]
JUST_R = dict({k: v for k, v in BARE_SEQ.items() if k.startswith("N") and
               k != "Ncontext_dense" or k.endswith(("types", "shapes"))},
              context_ragged_value_types=[], context_ragged_split_types=[],
              feature_list_ragged_value_types=["int64"],
              feature_list_ragged_split_types=["int64"])
R2 = [NONE] * 5 + [string([b"i"])]


def lacks(*flags):
    return np.array(flags, bool)


op("ParseSequenceExampleV2",
   case(batch(SA, SB), NONE, *KEYS2, lacks(False), D2, **SEQ2, **RAG),
   case(batch(b"", SB), string([b"a", b"b"]), *KEYS2,
        lacks(True), D2, **SEQ2, **RAG),
   case(batch(SA, b"", SB, SPLIT), NONE, *R2, lacks(), L(), **JUST_R),
   case(batch(NO_LIST, AGAIN), NONE, *R2, lacks(), L(),
        **dict(JUST_R, feature_list_ragged_split_types=["int32"])),
   case(string(SA), string([b"n"]), *KEYS2[:2], NONE, *KEYS2[3:5], NONE,
        lacks(False), D2, **SEQ2),
   bad("is missing", batch(b""), NONE, *KEYS2, lacks(False), D2,
       **SEQ2, **RAG),
   bad("\"x\" (float32, shape {2}) is missing", batch(SB), NONE, *KEYS2,
       lacks(True), L(NEED), **SEQ2, **RAG),
   bad("of float32, not of int64", batch(PAIR), NONE, *R2[:5], string([b"f"]),
       lacks(), L(), **JUST_R),
   bad("missing_assumed_empty", NONE, NONE, *KEYS2, lacks(), D2,
       **SEQ2, **RAG),
   bad("feature_list_ragged_keys", NONE, NONE, *R2[:5],
       string([b"i", b"f"]), lacks(), L(), **JUST_R),
   bad("ragged_split_types", NONE, NONE, *R2, lacks(), L(),
       **dict(JUST_R, feature_list_ragged_split_types=[])),
   dynamic=True)

S1 = {k: v for k, v in SEQ.items() if k != "Nfeature_list_dense"}
K1 = [keys(b"s"), keys(b"x"), keys(b"i"), keys(b"f", b"t")]
N1 = [L(), L(), keys(b"i"), L()]
I1 = dict(context_sparse_types=[], context_dense_shapes=[],
          feature_list_sparse_types=["int64"], feature_list_dense_types=[],
          feature_list_dense_shapes=[])
op("ParseSingleSequenceExample",
   case(string(SA), NONE, *K1, D2, string(b"n"), **S1),
   case(string(SB), string([b"t"]), *K1, D2, string(b""), **S1),
   case(string(b""), string([b"t", b"f"]), *K1, D2, string(b"n"), **S1),
   *[case(string(e), string([b"?"]), *N1, L(), string(b""), **I1)
     for e in (SA, NO_LIST, AGAIN, b"")],
   bad("is missing", string(b""), string([b"t"]), *K1, D2, string(b"n"), **S1),
   bad("\"n\"", string(b""), NONE, *K1, D2, string(b"n"), **S1),
   bad("serialized", batch(SA), NONE, *K1, D2, string(b""), **S1),
   bad("of float32, not of int64", string(SA), NONE, L(), L(), keys(b"f"), L(),
       L(), string(b""), **I1),
   bad("no whole", string(SA[:-1]), NONE, *N1, L(), string(b""), **I1),
   dynamic=True)

# ---- other bytes -------------------------------------------------------------

op("ParseTensor",
   *[case(string(p), out_type=t) for p, t in
     ((b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + struct.pack("<2f", 1, -2),
       "float32"),
      (b"\x08\x01\x12\x04\x12\x02\x08\x03\x2a\x04\0\0\x80?", "float32"),
      (b"\x08\x07\x12\x00\x42\x03abc", "string"),
      (b"\x08\x09\x12\x04\x12\x02\x08\x02\x52\x02\x05\x06", "int64"),
      (b"\x08\x03\x12\x08\x12\x02\x08\x02\x12\x02\x08\x00", "int32"),
      (b"\x08\x0a\x12\x00\x5a\x01\x01", "bool"))],
   bad("is a tensor of float32", string(b"\x08\x01\x12\x00\x2a\x04\0\0\x80?"),
       out_type="int32"),
   bad("no tensor", string(b"zzz"), out_type="float32"),
   bad("no tensor", string(b""), out_type="float32"),
   bad("serialized", string([b"", b""]), out_type="float32"),
   dynamic=True)
op("SerializeTensor",
   case(f32([[1.5, -2]])), case(f64([1, 2, 3])), case(i32([[0], [7]])),
   case(i64(2**62)), case(string([[b"a", b"bb"]])), case(string(b"x")),
   case(np.array([False, True])), case(np.array([1 + 2j], np.complex64)),
   case(u8(range(7))), case(np.zeros((0, 2), np.float32)))
op("DecodePaddedRaw",
   *[case(string([b"abc", b"", b"0123456789"]), i32(8), out_type=t)
     for t in ("bfloat16", "float32", "float64", "int32", "uint16",
               "uint8", "int16", "int8", "int64")],
   case(string([[b"abc"], [b"abcdef"]]), i32(4), out_type="int16",
        little_endian=False),
   case(string([]), i32(4), out_type="int32"),
   case(string(b"x"), i32(2), out_type="uint8"),
   bad("fixed_length", string([b"a"]), i32(3), out_type="int16"),
   bad("above 0", string([b"a"]), i32(0), out_type="int16"),
   bad("above 0", string([b"a"]), i32(-2), out_type="int16"),
   bad("fixed_length", string([b"a"]), i32([2]), out_type="int16"))

Z = zlib.compress(b"moon" * 5)
G = gzip.compress(b"tide", mtime=0)
op("DecodeCompressed",
   case(string([Z, b"", zlib.compress(b"")]), compression_type="ZLIB"),
   case(string([[G], [G + G]]), compression_type="GZIP"),
   case(string(Z + b"more"), compression_type="ZLIB"),
   case(string([b"as it is", b"\0"])), case(string([]), compression_type="GZIP"),
   bad("incorrect header", string([Z, G]), compression_type="ZLIB"),
   bad("incorrect header", string([Z]), compression_type="GZIP"),
   bad("incorrect data check", string(Z[:-1] + b"0"), compression_type="ZLIB"),
   bad("compression_type", string([b"x"]), compression_type="RAW"))

I, F, T = i32([]), f32([]), string([])


def lines(*records):
    return string([r.encode() for r in records])


op("DecodeCSV",
   case(lines("1,2.5,x", "-7, 1e3 ,\"a,\"\"b\""), L(I, F, T)),
   case(lines(",", "\"\",", "4,5"), L(i32([3]), i64(4))),
   case(lines("NA,1,NA"), L(f64([0.5]), I, string([b"none"])), na_value="NA"),
   case(lines("1;2", "\n3;\r\n4"), L(I, I), field_delim=";"),
   case(lines("a\"b", "\"x\""), L(T), use_quote_delim=False),
   case(lines("0,1,2,3", "4,5,,\"bad"), L(I, i32([9])), select_cols=[1, 2]),
   case(lines("1,"), L(I, string(b"z")), select_cols=[0, 1]),
   case(string([[b"1", b"2"], [b"3", b"4"]]), L(i64([]))),
   case(string(b"7"), L(F)), case(string([]), L(I, T)),
   case(lines("inf,nan,-0"), L(F, f64([]), F)),
   case(lines("\"\"\"\"", "\"a\nb\""), L(T)),
   bad("field 1: has a line end", lines("1,2\n"), L(I, I)),
   bad("field 0: has a quote", lines("a\"b"), L(T)),
   bad("must be doubled", lines("\"a\"b\""), L(T)),
   bad("does not end", lines("x", "\"ab"), L(T)),
   bad("record 1: has 3 fields", lines("1,2", "1,2,3"), L(I, I)),
   bad("has 0 fields", lines(""), L(i32([1]))),
   bad("record 1, field 0: is empty", lines("1,", ",1"), L(I, i32([1]))),
   bad("\"1.5\" is no int32", lines("1.5"), L(I)),
   bad("\"2147483648\" is no int32", lines("2147483648"), L(I)),
   bad("is no float32", lines("x"), L(F)),
   bad("record_defaults[0]", lines("1"), L(i32([1, 2]))),
   bad("record_defaults[0]", lines("1"), L(i32([[1]]))),
   bad("field_delim", lines("1"), L(I), field_delim=";;"),
   bad("select_cols", lines("1"), L(I), select_cols=[-1]),
   bad("select_cols", lines("1"), L(I, I), select_cols=[1, 1]),
   bad("select_cols", lines("1"), L(I), select_cols=[1, 2]))
