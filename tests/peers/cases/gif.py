"""Pictures with frames, for image.py: a writer of GIF files.

SPDX-License-Identifier: Apache-2.0
"""

import struct

PALETTE = [(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 20, 30),
           (40, 50, 60), (70, 80, 90), (255, 255, 255)]
SMALL = [(9, 8, 7), (6, 5, 4), (3, 2, 1), (90, 91, 92)]


def codes(pixels, bits=3):
    """Pixels as LZW codes that never refer back: cleared before they grow."""
    clear, width = 1 << bits, bits + 1
    out = [clear]
    for i, pixel in enumerate(pixels):
        if i and i % (clear - 2) == 0:
            out.append(clear)
        out.append(pixel)
    out.append(clear + 1)
    number = sum(code << width * i for i, code in enumerate(out))
    data = number.to_bytes((len(out) * width + 7) // 8, "little")
    blocks = [data[i:i + 255] for i in range(0, len(data), 255)]
    return (bytes([bits]) + b"".join(bytes([len(b)]) + b for b in blocks)
            + b"\0")


def colors(palette):
    return b"".join(bytes(c) for c in palette)


def frame(left, top, width, height, start=0, clear=None, disposal=None,
          palette=None, interlaced=False, pixels=None, among=8):
    """The pixels count up from `start`, by 3; `clear` is transparent."""
    head = b""
    if clear is not None or disposal is not None:
        head = b"!\xf9\x04" + struct.pack(
            "<BHBB", (disposal or 0) << 2 | (clear is not None), 0, clear or 0,
            0)
    flags = (0x81 if palette else 0) | (0x40 if interlaced else 0)
    if pixels is None:
        pixels = [(start + 3 * i) % among for i in range(width * height)]
    return (head + b"," + struct.pack("<HHHHB", left, top, width, height, flags)
            + colors(palette or []) + codes(pixels))


def gif(*frames, palette=PALETTE, end=b";"):
    flags = 0x82 if palette else 0
    return (b"GIF89a" + struct.pack("<HHBBB", 6, 5, flags, 0, 0)
            + colors(palette or []) + b"".join(frames) + end)


ONE = gif(frame(0, 0, 6, 5, 1))
FOUR = gif(frame(0, 0, 6, 5, 1), frame(1, 1, 3, 2, 4, clear=4, disposal=2),
           frame(2, 2, 6, 5, 2, disposal=3), frame(0, 0, 2, 9, 2))
WITHIN = gif(frame(1, 1, 3, 2, 4, clear=4))
ROWS = gif(frame(0, 0, 3, 19, 0, palette=SMALL, interlaced=True, among=4))
LARGE = gif(frame(0, 0, 26, 19, 1), b"!\xfe\x05hello\0",
            frame(20, 10, 12, 9, 5, clear=2)) # several blocks of codes
NONE = gif(frame(0, 0, 2, 2), palette=None)
