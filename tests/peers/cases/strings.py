"""Strings: joining, cutting, numbers, hashes, forms.

SPDX-License-Identifier: Apache-2.0
"""

from .base import (L, bad, case, f32, i32, i64, inf, nan, of, op, string,
                   sweep)

W = string([b"Ab", b"", b"moon \0 light", b"\xc3\xa4x"])
GRID = string([[b"a", b"b", b""], [b"d", b"e", b"f"]])

op("StringJoin",
   case(L(W, W)), case(L(W, string(b"-"), W), separator=", "),
   case(L(string(b"a"), string(b"b"))), case(L(GRID)),
   case(L(string([]), string(b"a"))),
   bad("shape", L(W, GRID)), bad("shape", L(W, string([b"a"]))))
op("ReduceJoin",
   case(GRID, i32([0])), case(GRID, i32(1), separator="+"),
   case(GRID, i32([1, 0]), separator=","), case(GRID, i32([0, 1])),
   case(GRID, i32([-1]), keep_dims=True), case(GRID, i32([])),
   case(string([GRID, GRID]), i32([2, 0]), separator=" "),
   case(string([[], []]), i32([1]), separator="x"),
   bad("reduction_indices", GRID, i32([2])),
   bad("twice", GRID, i32([0, -2])))
op("StringFormat",
   case(L(), template="nothing"), case(L(i32([1, 2, 3])), template="a%sb"),
   case(L(i32(range(10)), f32(1 / 3), W, string(b"x")),
        template="{} of {}, {}{}", placeholder="{}", summarize=2),
   case(L(i32([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]),
          i32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])),
        template="%s\n%s", summarize=1),
   case(L(i32([[[[1, 2]], [[3, 4]]], [[[5, 6]], [[7, 8]]]])),
        summarize=-1),
   case(L(f32([1.5, nan, inf, -inf, 1e-9, 1e20]), i64([-5, 2**62])),
        template="%s%s", summarize=-1),
   case(L(f32([]), f32([[], []]), i32(7), i32([7])), template="%s%s%s%s",
        summarize=0),
   bad("2 placeholders", L(i32(1)), template="%s %s"),
   bad("0 placeholders", L(i32(1)), template="x", placeholder=""))
op("StringSplit",
   case(string([b"a b", b"", b" c  d "]), string(b" ")),
   case(string([b"a,b;c", b";"]), string(b",;"), skip_empty=False),
   case(string([b"abc", b""]), string(b"")), case(string([]), string(b" ")),
   case(string([b"a  b"]), string(b" "), skip_empty=False),
   bad("rank", GRID, string(b" ")), bad("delimiter", W, string([b" "])),
   dynamic=True)
op("StringSplitV2",
   case(string([b" a b\t", b"", b"c  d "]), string(b"")),
   case(string([b"a<>b<>c", b"<>", b"x<"]), string(b"<>")),
   case(string([b"a,b,,c", b"", b","]), string(b","), maxsplit=2),
   case(string([b" a  b c  ", b"x"]), string(b""), maxsplit=1),
   case(string([b"a,b", b""]), string(b","), maxsplit=0),
   case(string([b" a b "]), string(b""), maxsplit=0),
   case(string([]), string(b"")),
   bad("rank", GRID, string(b" ")), bad("sep", W, string([b" "])),
   dynamic=True)
NUMBERS = string([b"1", b"-2", b" 30\n", b"+4"])
op("StringToNumber",
   *[case(NUMBERS, out_type=t) for t in
     ("float32", "float64", "int32", "int64")],
   *[case(string([b"1", b" 4294967295 "]), out_type=t) for t in
     ("uint32", "uint64")],
   case(string([b"1.5", b"-2e-3", b".5", b"3.", b"inf", b"-Infinity", b"nan",
                b"1e-50", b"123456789.123456789"])),
   case(string([[b"1.5"], [b"1e308"]]), out_type="float64"),
   case(string([b"-9223372036854775808", b"9223372036854775807"]),
        out_type="int64"),
   case(string([])),
   bad("string 0", string([b""])), bad("x1", string([b"1", b"x1"])),
   *[case(string([b"0xF", b"-0X1f", b"+0x1p-3", b"0x.8P1", b"nan(1)",
                  b"INFINITY", b"1e400", b"-1e-400", b"\v1\f", b"1E+5", b"-.5",
                  b"340282356779733661637539395458142568447"]), out_type=t)
     for t in ("float32", "float64")],
   *[bad("is no", string([s])) for s in (b"0x", b"0xg", b"1e", b"1_0", b"+-1",
                                         b"- 1", b"infin", b"1f", b"1\0")],
   *[bad("is no", string([s]), out_type="int32") for s in
     (b"0xF", b"1e2", b"+", b"-2147483649")],
   bad("is no", string([b"-1"]), out_type="uint64"),
   bad("is no", string([b"1 2"])), bad("is no", string([b"1\0"])),
   bad("is no", string([b"2147483648"]), out_type="int32"),
   bad("is no", string([b"1.5"]), out_type="int32"),
   bad("is no", string([b"4294967296"]), out_type="uint32"),
   bad("is no", string([b"-9223372036854775809"]), out_type="int64"),
   bad("is no", string([b"99999999999999999999"]), out_type="uint64"))
REALS = [1.5, -0.25, 3e10, 1e-7, 0]
op("AsString",
   sweep([[1, 0, 2]]), of("string", W), of("string", W, width=5),
   of("float32", REALS), of("float64", REALS, precision=3),
   of("float64", REALS, scientific=True),
   of("float32", REALS, shortest=True),
   of("float32", [nan, inf, -inf]), of("float64", [nan, -inf], width=7),
   of("float64", REALS, precision=2, width=12, fill="0"),
   of("int32", [1, -20], width=5), of("int32", [1, -20], width=5, fill="0"),
   of("int32", [1, -20], width=5, fill="-"),
   of("int64", [2**62, -2**63], fill="+"), of("uint64", [2**63]),
   *[of(t, [1.5, -3], width=8, fill="#") for t in
     ("float32", "float16", "int32", "uint16", "bool", "complex64")],
   *[of("string", W, width=6, fill=f) for f in ("0", "+", "#", "-")],
   of("string", W, width=6, precision=2), of("string", W, precision=2),
   of("string", W, scientific=True), of("uint8", 7, width=6, fill="+"),
   of("bool", [True, False], width=9, fill="0"),
   of("float64", REALS, shortest=True, precision=20, fill="#"),
   of("bfloat16", REALS, width=9, fill=" "),
   of("bool", [True, False]), of("complex64", [1 + 2j, -0.5]),
   of("complex128", [1 + 2j], precision=1, width=6),
   of("float32", []), of("uint8", 255),
   bad("shortest", f32(1), scientific=True, shortest=True),
   bad("precision", i32(1), precision=3), bad("fill", i32(1), fill="ab"),
   bad("fill", i32(1), fill="x"), bad("scientific", i32(1), scientific=True))
op("StringLength",
   case(W), case(W, unit="UTF8_CHAR"), case(string([[], []])),
   case(string([b"\xe6\x9c\x88\xf0\x9f\x8c\x99a"]), unit="UTF8_CHAR"))
op("Substr",
   case(string([b"moonlight", b"tide"]), i32(1), i32(3)),
   case(string([b"moonlight", b"tide"]), i64([-5, 0]), i64([2, 9])),
   case(GRID, i32([[0], [-1]]) * 0, i32([[1], [0]])),
   case(string(b"moon"), i32([0, 1, 4]), i32([4, 2, 1])),
   case(string([b"\xc3\xa4\xe6\x9c\x88b", b"xyz"]), i32(1), i32(1),
        unit="UTF8_CHAR"),
   case(string([b"\xc3\xa4\xe6\x9c\x88b", b"xyz"]), i32(-2), i32(5),
        unit="UTF8_CHAR"),
   bad("outside", string([b"moon"]), i32(5), i32(1)),
   bad("outside", string([b"moon"]), i32(-5), i32(1)),
   bad("one shape", W, i32([1, 2]), i32(1)),
   bad("broadcast", GRID, i32([1, 2]), i32([1, 1])))
LONG = string([bytes((7 * i + n) % 256 for i in range(n)) for n in
               (0, 1, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64, 65, 127, 128, 129,
                200, 257)])
for name in ("StringToHashBucketFast", "StringToHashBucket"):
    op(name,
       case(LONG, num_buckets=2**63 - 1), case(W, num_buckets=10),
       case(GRID, num_buckets=1), case(string([]), num_buckets=3))
CASES = string([b"Moon 9 \xc3\x84\xc3\xa9Z", b"", b"\xd0\x96\xd0\xb6\xce\xa9"])
for name in ("StringLower", "StringUpper"):
    op(name,
       case(CASES), case(CASES, encoding="utf-8"), case(W),
       case(string([[], []])), bad("utf-8", CASES, encoding="latin-1"))
op("StringStrip",
   case(string([b"  a b\t\n", b"", b" \r\v\f", b"x"])), case(GRID))
op("EncodeBase64",
   case(LONG), case(W, pad=True), case(string([[b"a"], [b"\xff\xfe\xfd"]])),
   case(string([])))
op("DecodeBase64",
   case(string([b"", b"TQ", b"TW8", b"TW9v", b"TQ==", b"TW8=", b"_-8"])),
   case(string([[b"bW9vbg"]])), case(string([b"TR", b"TWF", b"TR==", b"TWF="])),
   bad("base64", string([b"TQ="])), bad("base64", string([b"T=Q="])),
   bad("base64", string([b"a"])), bad("base64", string([b"ab+/"])),
   bad("base64", string([b"a b="])), bad("base64", string([b"====TQ"])))
BYTES = string([b"\0\1\2\3\4\5\6\7\x80\xff\0\0\0\0\xf0\x3f"] * 2)
op("DecodeRaw",
   *[case(BYTES, out_type=t) for t in
     ("float64", "int32", "uint16", "uint8", "int16", "int8", "int64",
      "complex128")],
   case(string([b"\0\0\x80?\0\0\0@"]), out_type="complex64"),
   case(string([b"\0\0\x80?\0\0\0@"]), out_type="float32"),
   case(string([b"\0\0\x80?"]), out_type="float16"),
   case(string([b"\0\0\x80?"]), out_type="bfloat16"),
   case(string([b"\0\1"]), out_type="bool"),
   case(BYTES, out_type="int32", little_endian=False),
   case(string([b"?\x80\0\0@\0\0\0"]), out_type="complex64",
        little_endian=False),
   case(string([[b"ab"], [b"cd"]]), out_type="uint8"),
   case(string(b""), out_type="int32"), case(string([]), out_type="int32"),
   bad("length", string([b"a", b"ab"]), out_type="uint8"),
   bad("bytes", string([b"abc"]), out_type="int32"),
   dynamic=True)

LINES = string([b"moon", b"", b"a\nb", b"\xc3\xa4bb\xc3\xa4", b"x\xff\xc3y",
                b"a b\0c"])
PATTERNS = [b"o", b"(o)(n?)", b"b*", b"", b"^.", b"(?i)[A-Z]+", b"(?s).$",
            b"\\s", b"(?P<n>b)|a", b"x.", b"\\x{e4}", b"[[:alpha:]]\\b",
            b"\\Q.\\E", b"b{1,2}?", b"$", b"[^a]", b"\\pL+", b"(a)|b"]
FULL = [b"m.*", b"(a|)", b"a\nb", b"(?s)a.b", b".{4}", b"mo|moon", b"", b"a$\nb",
        b"x..y", b"[^m]*"]
op("RegexReplace",
   *[case(LINES, string(p), string(b"<\\0>")) for p in PATTERNS],
   case(LINES, string(b"(.)(.)"), string(b"\\2\\1\\\\")),
   case(LINES, string(b"b*"), string(b"-"), replace_global=False),
   case(LINES, string(b"(a)|b"), string(b"[\\1]")),
   case(GRID, string(b"[a-d]"), string(b"")),
   case(string(b"aaa"), string(b"a"), string(b"bb")),
   case(string([]), string(b"a"), string(b"b")),
   bad("pattern", W, string([b"a"]), string(b"")),
   bad("rewrite", W, string(b"a"), string([b""])),
   bad("missing", W, string(b"(a"), string(b"")),
   bad("back references", W, string(b"(a)\\1"), string(b"")),
   bad("byte 1", W, string(b"a(?=b)"), string(b"")),
   bad("byte 1", W, string(b"a++"), string(b"")))
op("RegexFullMatch",
   *[case(LINES, string(p)) for p in FULL + PATTERNS],
   case(GRID, string(b"[a-d]?")), case(string([]), string(b"a")),
   bad("pattern", W, string([b"a"])), bad("byte", W, string(b"a**")),
   bad("byte 0", W, string(b"(?<=a)b")), bad("byte 0", W, string(b"(*UCP)a")))
op("StaticRegexReplace",
   case(LINES, pattern="(o)(n?)", rewrite="<\\2\\1>"),
   case(GRID, pattern="[ae]", rewrite="", replace_global=False),
   bad("missing", W, pattern="[", rewrite=""))
op("StaticRegexFullMatch",
   case(LINES, pattern="m.*"), case(GRID, pattern="[a-c]"),
   bad("parenthesis", W, pattern="a)("))
