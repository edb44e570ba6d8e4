"""Pictures: reading, writing, resizing, colours, boxes.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import struct
import zlib

import numpy as np

from .base import bad, case, f32, i32, i64, no_grad, of, op, string, sweep, u8

# ---- files -------------------------------------------------------------------


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data
            + struct.pack(">I", zlib.crc32(kind + data)))


def png(color, depth, w, h, extra=b""):
    """Noise of a colour type and depth."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    rng = np.random.RandomState(color * 100 + depth)
    row = (w * samples * depth + 7) // 8
    data = b"".join(b"\0" + rng.bytes(row) for _ in range(h))
    if color == 3:
        extra = chunk(b"PLTE", rng.bytes(3 << depth)) + extra
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0,
                                         0))
            + extra + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def bmp(w, h, channels):
    row = (w * channels + 3) // 4 * 4
    pixels = np.random.RandomState(w).bytes(row * h)
    return (b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54)
            + struct.pack("<IiiHHIIiiII", 40, w, h, 1, 8 * channels, 0,
                          len(pixels), 0, 0, 0, 0) + pixels)


RGB_JPEG = base64.b85decode(
    "|JeWF01!$>Nk#wx0RaIl0W1Ij|JwjV00smF1_cBL1_cHO2L=cV5DE$j2?`Vr4-60&6c`v66c"
    "!d59VH(c8zUSR79cDjBPJ&)Dk&KsEif%8FeNA{DF534LjeZ|2MP!Z6AB6wC>j<TC@3f>C@3f"
    ">C@3f>C@3f>C@3f>C@3f>C@3f>C@3f>C@3f>C@3f>C@3f>C@3f>C@BBH01*fP2>=WO0U`hb5"
    "di}c0sq7R6aWDL000000000000000000L6!~h)-009I70{{R30000000000009IABL<-|GeQ"
    "5v02KiN0RR910000000000000021OLPT8W8{i1pxp60000000000000I61O*c@LI2tS3<CiG"
    "0ucid06zdD6NhoHLblj-NnV7}J_{Rkp#nl@mg*uij%nU6|Je")
GRAY_JPEG = base64.b85decode(
    "|JeWF01!$>Nk#wx0RaIl0W1Ij|JwjV01yid4h#wq4h;?x5fBp?C>j_R78o%jB^@X_Gd(;xGd"
    "MRuNL)@pL{~*OI8bd-S6^ahXlFi6ad~iLcwA*?WB<Sa3kU!S01N>E5di<h02KfM0RR910000"
    "000000000071^>hV84v&g1poj50000000000000021O_xh|Jncu0RaF2KLCXu$cW0aL%8-tM"
    "pcr3|Je")

JPEG, GRAY = string(RGB_JPEG), string(GRAY_JPEG)
PNG = string(png(2, 8, 4, 3))
ALPHA = chunk(b"tRNS", bytes(range(0, 160, 10)))

op("DecodePng",
   *[case(string(png(c, d, 3, 2)), dtype=t) for c, d in
     [(0, 1), (0, 16), (2, 16), (3, 2), (4, 8), (6, 16)]
     for t in ("uint8", "uint16")],
   *[case(string(png(c, 8, 3, 2)), channels=n) for c in (0, 2, 6)
     for n in (1, 3, 4)],
   *[case(string(png(3, 4, 3, 2, ALPHA)), channels=n) for n in (0, 1, 3, 4)],
   case(GRAY),
   bad("no picture", string(b"")), bad("truncated", string(png(2, 8, 4, 3)[:50])),
   bad("contents", string([png(2, 8, 4, 3)])), bad("channels", PNG, channels=5),
   bad("GIF", string(b"GIF89a" + bytes(30))), dynamic=True)
op("DecodeJpeg",
   case(JPEG), case(JPEG, channels=1), case(JPEG, ratio=2),
   case(JPEG, dct_method="INTEGER_ACCURATE"),
   case(JPEG, dct_method="INTEGER_FAST"), case(JPEG, fancy_upscaling=False),
   case(GRAY), case(GRAY, channels=3), case(PNG),
   bad("truncated", string(RGB_JPEG[:-40])), bad("ratio", JPEG, ratio=3),
   bad("channels", JPEG, channels=4), bad("dct_method", JPEG, dct_method="x"),
   bad("JPEG", string(b"\xff\xd8\xff")), near=(2, 2, 2, 2, 0), dynamic=True)
op("DecodeBmp",
   case(string(bmp(5, 3, 3))), case(string(bmp(5, 3, 1))),
   case(string(bmp(5, 3, 4)), channels=4),
   bad("channels", string(bmp(5, 3, 3)), channels=1),
   bad("BMP", string(b"BM")), bad("shorter", string(bmp(5, 3, 3)[:-4])),
   bad("PNG", PNG), dynamic=True)
op("DecodeImage",
   *[case(x, dtype=t) for x in (PNG, string(png(0, 16, 4, 3)),
                                string(bmp(5, 3, 3)), GRAY)
     for t in ("uint8", "float32")],
   case(GRAY, dtype="uint16"), case(PNG, channels=1, expand_animations=False),
   bad("no picture", string(b"nothing")), near=(0, 0, 2, 0, 0), dynamic=True)
op("DecodeAndCropJpeg",
   case(GRAY, i32([2, 3, 5, 6])), case(JPEG, i32([0, 0, 9, 12])),
   bad("crop_window", GRAY, i32([1, 2, 3])),
   bad("window", GRAY, i32([5, 5, 5, 5])), bad("window", GRAY, i32([0, 0, 0, 1])),
   bad("window", GRAY, i32([-1, 0, 2, 2])), dynamic=True)
op("ExtractJpegShape",
   case(JPEG), case(GRAY, output_type="int64"), bad("JPEG", PNG))

Y, X = np.mgrid[0:6, 0:7]
PICTURE = u8(np.stack([20 * X, 30 * Y, 255 - 9 * (X + Y)], -1))

op("EncodePng",
   case(PICTURE), case(PICTURE[:, :, :1]), case(PICTURE[:, :, :2]),
   case(PICTURE.astype(np.uint16) * 257), case(u8([PICTURE, PICTURE[::-1]])),
   bad("compression", PICTURE, compression=10),
   bad("channels", u8(np.zeros((2, 2, 5)))), bad("image", PICTURE[0]))
op("EncodeJpeg",
   case(PICTURE), case(PICTURE[:, :, :1], quality=20),
   case(PICTURE, progressive=True, chroma_downsampling=False),
   case(PICTURE, optimize_size=True, density_unit="cm", x_density=1,
        y_density=2, xmp_metadata=b"<x/>", format="rgb"),
   bad("quality", PICTURE, quality=101), bad("format", PICTURE,
                                             format="grayscale"),
   bad("channels", PICTURE[:, :, :2]), bad("", PICTURE[0]))
