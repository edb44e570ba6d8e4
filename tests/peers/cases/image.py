"""Pictures: reading, writing, resizing, colours, boxes.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import struct
import zlib

import numpy as np

from .base import (bad, case, f32, floats, i32, inf, nan, no_grad, of, op, string,
                   sweep, u8)
from .gif import FOUR, LARGE, NONE, ONE, ROWS, SMALL, WITHIN, frame, gif

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
   case(GRAY), case(string(ONE)), case(string(WITHIN), channels=3),
   bad("no picture", string(b"")), bad("truncated", string(png(2, 8, 4, 3)[:50])),
   bad("contents", string([png(2, 8, 4, 3)])), bad("channels", PNG, channels=5),
   bad("GIF", string(b"GIF89a" + bytes(30))),
   bad("4 frames", string(FOUR)), bad("channels", string(ONE), channels=1),
   bad("channels", string(ONE), channels=4), dynamic=True)
op("DecodeJpeg",
   case(JPEG), case(JPEG, channels=1), case(JPEG, ratio=2),
   case(JPEG, dct_method="INTEGER_ACCURATE"),
   case(JPEG, dct_method="INTEGER_FAST"), case(JPEG, fancy_upscaling=False),
   case(GRAY), case(GRAY, channels=3), case(PNG),
   bad("truncated", string(RGB_JPEG[:-40])), bad("ratio", JPEG, ratio=3),
   bad("channels", JPEG, channels=4), bad("dct_method", JPEG, dct_method="x"),
   bad("JPEG", string(b"\xff\xd8\xff")), near=(2, 2, 2, 2, 0), dynamic=True)
op("DecodeGif",
   *[case(string(x)) for x in (ONE, FOUR, WITHIN, ROWS, LARGE)],
   case(string(gif(frame(0, 0, 4, 4, palette=SMALL, among=4), palette=None))),
   case(string(FOUR[:-20])), case(string(ONE[:-1])), # ends early
   case(string(gif(frame(0, 0, 3, 3), b"?junk"))),
   case(PNG), case(string(png(6, 8, 3, 2))), case(GRAY),
   bad("no frame", string(gif())), bad("frame", string(ONE[:-8])),
   bad("screen", string(ONE[:6])), bad("colour", string(NONE)),
   bad("colour 6 of 4", string(gif(frame(0, 0, 4, 4, palette=SMALL)))),
   bad("frame", string(gif(frame(0, 0, 0, 4)))),
   bad("frame", string(gif(frame(0, 0, 4, 4, pixels=[1, 2])))),
   bad("BMP", string(bmp(5, 3, 3))), bad("no picture", string(b"x")),
   bad("contents", string([ONE])), dynamic=True)
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
   case(string(FOUR)), case(string(WITHIN), dtype="float32"),
   case(string(FOUR), dtype="uint16", expand_animations=False), bad("channels", string(ONE), channels=4),
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

# ---- sizes -------------------------------------------------------------------

SMALL = [[[[1.5, 2], [3, -4]], [[5, 6.5], [7, 8]], [[0, 1], [2, 9]]]]
TWO = (np.arange(2 * 4 * 5 * 1).reshape(2, 4, 5, 1) % 7 - 2.5).tolist()
BAD_SIZES = [bad("size", SMALL, i32([2])), bad("size", SMALL, i32([0, 2])),
             bad("", SMALL[0], i32([2, 2]))]
ROW, COLUMN, DOT = [[[[1], [2.5], [4]]]], [[[[1]], [[2.5]], [[4]]]], [[[[3]]]]
HALF = {"half_pixel_centers": True}
ALIGN = {"align_corners": True}
NEAR = (1, 1, 4, 4, 0)

for name in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"):
    op(name,
       sweep(SMALL, i32([5, 3])),
       *[of("float32", TWO, i32(size), **a) for size in
         ([3, 3], [5, 6]) for a in ({}, ALIGN, HALF)],
       of("float32", SMALL, i32([1, 1])),
       *[of("float32", x, i32([3, 2]), **a) for x in (ROW, COLUMN, DOT)
         for a in ({}, ALIGN, HALF)],
       bad("exclude", SMALL, i32([2, 2]), **HALF, **ALIGN), *BAD_SIZES,
       near=(1, 1, 4, 4, 0), least=1)
op("ResizeArea",
   sweep(SMALL, i32([2, 1])),
   *[of("float32", TWO, i32(size), **a) for size in
     ([3, 3], [7, 9], [1, 1], [2, 5]) for a in ({}, ALIGN)],
   *[of("float32", x, i32(size), **a) for x in (ROW, COLUMN, DOT)
     for size in ([3, 2], [1, 5]) for a in ({}, ALIGN)],
   *BAD_SIZES, near=NEAR, least=1)

GRADS = f32(np.arange(2 * 3 * 7 * 1).reshape(2, 3, 7, 1) % 5 - 1.5)
for name, types in (("ResizeBilinearGrad", "float16 bfloat16 float32 float64"),
                    ("ResizeBicubicGrad", "float32 float64")):
    op(name,
       of(types, GRADS, TWO),
       *[of("float32", GRADS, TWO, **a) for a in (ALIGN, HALF)],
       bad("", GRADS[0], TWO), bad("", GRADS, TWO[0]),
       near=(8, 8, 16, 64, 0), scaled=True, least=1)
op("ResizeNearestNeighborGrad",
   sweep(TWO, i32([3, 2])),
   *[of("float32", TWO, i32(size), **a) for size in ([3, 2], [6, 8])
     for a in (ALIGN, HALF)],
   bad("size", TWO, i32([3])), bad("", TWO[0], i32([2, 2])),
   near=(2, 2, 2, 2, 0))

# ---- boxes -------------------------------------------------------------------

CUTS = f32([[0, 0, 1, 1], [0.2, 0.9, 0.7, 0.1], [-0.5, 0.1, 1.5, 0.8]])
OF = i32([0, 1, 1])
op("CropAndResize",
   sweep([[[[1], [2]], [[3], [5]]]] * 2, CUTS[:2], OF[:2], i32([2, 3])),
   *[no_grad(of("float32", TWO, CUTS, OF, i32(size), method=m,
                extrapolation_value=9.5))
     for size in ([1, 1], [2, 5]) for m in ("bilinear", "nearest")],
   bad("box_ind", TWO, CUTS, i32([0, 2, 1]), i32([2, 2])),
   bad("boxes", TWO, CUTS, i32([0, 1]), i32([2, 2])),
   bad("boxes[1][2]", TWO, f32([[0, 0, 1, 1], [0, 0, inf, 1]]), i32([0, 1]),
       i32([2, 2])),
   bad("boxes[0][1]", TWO, f32([[0, nan, 1, 1]]), i32([0]), i32([2, 2])),
   bad("crop_size", TWO, CUTS, OF, i32([0, 2])), near=NEAR, least=1)
CROPS = f32(np.arange(3 * 2 * 3).reshape(3, 2, 3, 1) % 4 - 1.5)
op("CropAndResizeGradImage",
   of("float16 float32 float64", CROPS, CUTS, OF, i32([2, 4, 5, 1])),
   no_grad(of("float32", CROPS, CUTS, OF, i32([2, 4, 5, 1]),
              method="nearest")),
   bad("image_size", CROPS, CUTS, OF, i32([-2, 4, 5, 1])),
   bad("grads", CROPS[:2], CUTS, OF, i32([2, 4, 5, 1])),
   near=(8, 0, 16, 1 << 30, 0), scaled=True, least=1)
op("CropAndResizeGradBoxes",
   sweep(CROPS, TWO, CUTS, OF), bad("grads", CROPS[:2], TWO, CUTS, OF),
   near=(0, 0, 16, 0, 0), scaled=True, least=1)
PAPER = np.zeros((2, 6, 7, 3)).tolist()
op("DrawBoundingBoxes",
   sweep(PAPER, f32([[[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.8]],
                     [[-0.5, 0.1, 0.5, 2], [0.5, 0.5, 0.2, 0.9]]])),
   of("float32", np.zeros((2, 6, 7, 1)).tolist(), f32([[[0.1, 0.1, 0.9, 0.9]]] * 2)),
   of("float32", PAPER, f32(np.zeros((2, 0, 4)))),
   bad("boxes", PAPER, f32([[[0, 0, 1, 1]]])), bad("", PAPER[0],
                                                   f32([[[0, 0, 1, 1]]])))
FOUND = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
         [1, 11.1, 0, 10.1], [0, 100, 1, 101]]
SCORES = [0.875, 0.75, 0.5, 0.9375, 0.5, 0.25]
op("NonMaxSuppression",
   case(f32(FOUND), f32(SCORES), i32(3)), case(f32(FOUND), f32(SCORES), i32(9),
                                               iou_threshold=0.9),
   case(f32(np.zeros((0, 4))), f32([]), i32(2)),
   bad("iou_threshold", f32(FOUND), f32(SCORES), i32(3), iou_threshold=2.0),
   bad("scores", f32(FOUND), f32(SCORES[1:]), i32(3)),
   bad("max_output_size", f32(FOUND), f32(SCORES), i32(-1)), dynamic=True)
op("NonMaxSuppressionV2",
   sweep(FOUND, SCORES, i32(3), 0.5),
   bad("iou_threshold", FOUND, SCORES, i32(3), -0.5), dynamic=True)
op("NonMaxSuppressionV3",
   sweep(FOUND, SCORES, i32(3), 0.5, 0.25),
   of("float32", FOUND, SCORES, i32(9), 0.5, 0.6),
   bad("iou_threshold", FOUND, SCORES, i32(3), -0.5, 0.0), dynamic=True)
op("NonMaxSuppressionV4",
   sweep(FOUND, SCORES, i32(9), 0.5, 0.25),
   of("float32", FOUND, SCORES, i32(9), 0.5, 0.6, pad_to_max_output_size=True),
   bad("iou_threshold", FOUND, SCORES, i32(3), -0.5, 0.0), dynamic=True)
OBJECTS = f32([[[0.1, 0.2, 0.6, 0.7]], [[0.5, 0.5, 0.9, 0.9]]])
SEEDS = {"seed": 3, "seed2": 5}
op("SampleDistortedBoundingBox",
   *[of(t, [30, 40, 3], OBJECTS, **SEEDS)
     for t in ("uint8", "int8", "int16", "int32", "int64")],
   of("int32", [99, 57, 3], OBJECTS, **SEEDS, min_object_covered=0.9,
      aspect_ratio_range=[0.5, 2.0], area_range=[0.3, 0.6]),
   of("int32", [20, 20, 1], f32(np.zeros((1, 0, 4))), **SEEDS,
      use_image_if_no_bounding_boxes=True),
   of("int32", [20, 20, 1], OBJECTS, **SEEDS, max_attempts=1,
      min_object_covered=1.0),
   bad("no bounding boxes", [20, 20, 1], f32(np.zeros((1, 0, 4))), **SEEDS),
   bad("from 0 to 1", [20, 20, 1], OBJECTS + 1, **SEEDS),
   bad("image_size", [20, 20], OBJECTS, **SEEDS),
   bad("max_attempts", [20, 20, 1], OBJECTS, **SEEDS, max_attempts=0),
   bad("area_range", [20, 20, 1], OBJECTS, **SEEDS, area_range=[0.5, 2.0]))
op("SampleDistortedBoundingBoxV2",
   *[of(t, [30, 40, 3], OBJECTS, f32(0.4), **SEEDS)
     for t in ("uint8", "int8", "int16", "int32", "int64")],
   bad("min_object_covered", [20, 20, 1], OBJECTS, f32([0.5]), **SEEDS))

# ---- colours and patches -----------------------------------------------------

COLORS = [[[0.25, 0.5, 0.75], [0.75, 0.125, 0.5], [0.5, 0.875, 0.25]],
          [[0.375, 0.25, 0.0625], [1, 0.5, 0.75], [0.125, 0.25, 0.875]]]
GRAYS = [[[0.5, 0.5, 0.5], [0, 0, 0]]]
op("RGBToHSV", floats(COLORS), no_grad(of("float32", GRAYS)),
   bad("3 channels", [[1, 2]]), near=(2, 2, 8, 8, 0), least=1)
op("HSVToRGB", floats(COLORS), of("float32", GRAYS), bad("3 channels", [1]),
   near=(2, 2, 8, 8, 0), least=1)
op("AdjustContrastv2", sweep(COLORS, f32(1.5)),
   of("float32", [COLORS, COLORS], f32(-0.5)), bad("images", [[1]], f32(1)),
   bad("contrast_factor", COLORS, f32([1])), near=(4, 0, 8, 0, 0), least=1)
op("AdjustHue", sweep(COLORS, f32(0.25)), of("float32", COLORS, f32(-0.9)),
   of("float32", GRAYS, f32(0.3)),
   of("float32", [[[-0.25, -0.5, -1], [-1, 0, 0.5]]], f32(0.3)),
   bad("delta", COLORS, f32([1])),
   bad("3 channels", [[[1, 2]]], f32(1)), near=(4, 0, 32, 0, 0), least=1)
op("AdjustSaturation", sweep(COLORS, f32(0.5)), of("float32", COLORS, f32(3)),
   of("float32", GRAYS, f32(2)), bad("scale", COLORS, f32([1])),
   bad("3 channels", [[[1, 2]]], f32(1)), near=(4, 0, 32, 0, 0), least=1)
ONES = [1, 1, 1, 1]
op("ExtractImagePatches",
   sweep([[[[1], [2], [3]]]], ksizes=[1, 1, 2, 1], strides=ONES, rates=ONES,
         padding="VALID"),
   of("float32", TWO, ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=ONES,
      padding="SAME"),
   of("float32", SMALL, ksizes=[1, 2, 2, 1], strides=ONES, rates=[1, 2, 1, 1],
      padding="SAME"),
   bad("ksizes", TWO, ksizes=[1, 0, 1, 1], strides=ONES, rates=ONES,
       padding="SAME"),
   bad("rates", TWO, ksizes=ONES, strides=ONES, rates=[2, 1, 1, 1],
       padding="SAME"))

# ---- glimpses: with noise there is no right answer ---------------------------

GLIMPSE = np.arange(1, 41, dtype=np.float32).reshape(2, 4, 5, 1)
ZERO = {"uniform_noise": False, "noise": "zero"}
op("ExtractGlimpse",
   case(f32(GLIMPSE), i32([2, 3]), f32([[0, 0], [0.2, -0.1]])),
   case(f32(GLIMPSE), i32([1, 1]), f32([[2, 3], [1.5, 2.5]]),
           normalized=False, centered=False),
   case(f32(GLIMPSE), i32([4, 5]), f32([[0.5, 0.5], [0.5, 0.5]]),
           centered=False),
   case(f32(GLIMPSE), i32([3, 3]), f32([[1, 1], [-1, 0.3]]), **ZERO),
   case(f32(GLIMPSE), i32([7, 2]), f32([[-0.3, 0.9], [3, -3]]), **ZERO),
   case(f32(GLIMPSE), i32([3, 4]), f32([[3.9, 6.2], [-2, 1e30]]),
           normalized=False, **ZERO),
   case(f32(GLIMPSE), i32([0, 3]), f32([[0, 0], [0, 0]])),
   bad("size", f32(GLIMPSE), i32([2]), f32([[0, 0], [0, 0]])),
   bad("negative", f32(GLIMPSE), i32([2, -1]), f32([[0, 0], [0, 0]])),
   bad("offsets", f32(GLIMPSE), i32([2, 2]), f32([[0, 0]])),
   bad("offsets", f32(GLIMPSE), i32([2, 2]), f32([[0, 0, 0], [0, 0, 0]])),
   bad("input", f32([[1]]), i32([2, 2]), f32([[0, 0]])),
   bad("noise", f32(GLIMPSE), i32([2, 2]), f32([[0, 0], [0, 0]]),
       uniform_noise=False, noise="grey"),
   bad("uniform_noise", f32(GLIMPSE), i32([2, 2]), f32([[0, 0], [0, 0]]),
       noise="zero"))
