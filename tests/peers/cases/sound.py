"""Sound: WAV files, spectrograms.

SPDX-License-Identifier: Apache-2.0
"""

import struct

import numpy as np

from .base import bad, case, f32, i32, inf, nan, op, string

SIX = struct.pack("<6h", 0, 1, -1, 32767, -32768, 1000)


def chunk(tag, data, size=None):
    return tag + struct.pack("<I", len(data) if size is None else size) + data


def wav(data, channels=1, rate=8000, bits=16, form=1, more=b"", size=None,
        frame=None, second=None, before=b"", behind=b""):
    frame = bits // 8 * channels if frame is None else frame
    head = struct.pack("<HHIIHH", form, channels, rate,
                       rate * frame if second is None else second, frame, bits)
    chunks = (b"WAVE" + chunk(b"fmt ", head + more) + before
              + chunk(b"data", data, size) + behind)
    return chunk(b"RIFF", chunks)


MONO, STEREO = string(wav(SIX)), string(wav(SIX, channels=2, rate=44100))

op("DecodeWav",
   case(MONO), case(STEREO), case(string(wav(b""))),
   *[case(x, desired_channels=n) for x in (MONO, STEREO) for n in (0, 1, 2, 3)],
   *[case(STEREO, desired_samples=n) for n in (0, 1, 3, 8)],
   case(MONO, desired_channels=2, desired_samples=8),
   case(string(wav(SIX, more=b"\0\0"))), # a longer format
   case(string(wav(SIX, before=chunk(b"LIST", b"abcd")))),
   case(string(wav(SIX, before=chunk(b"LIST", b"abc")))), # not padded
   case(string(wav(SIX, behind=chunk(b"LIST", b"abcd")))),
   case(string(wav(SIX, rate=0))), case(string(wav(SIX, rate=1 << 30))),
   bad("bits", string(wav(SIX, bits=8))), bad("bits", string(wav(SIX, bits=24))),
   bad("format", string(wav(SIX, bits=32, form=3))),
   bad("format", string(wav(SIX, form=0xfffe, more=bytes(24)))),
   bad("channels", string(wav(SIX, channels=0))),
   bad("bytes a frame", string(wav(SIX, frame=3))),
   bad("bytes a second", string(wav(SIX, second=7))),
   bad("truncated", string(wav(SIX)[:-1])), bad("truncated", string(b"RIFF")),
   bad("truncated", string(wav(SIX, size=100))),
   bad("truncated", string(wav(SIX + b"x"))),
   bad("a chunk", string(wav(SIX, size=0xffffffff))),
   bad("truncated", string(wav(SIX[:10], channels=2))),
   bad("more than one", string(wav(SIX, behind=chunk(b"data", SIX)))),
   bad("no chunk", string(wav(SIX)[:36])), bad("RIFF", string(b"RIFX" + bytes(40))),
   bad("WAVE", string(wav(SIX).replace(b"WAVE", b"WAVX"))),
   bad("fmt", string(b"RIFF\x10\0\0\0WAVEdata" + SIX)),
   bad("contents", string([wav(SIX)])),
   bad("desired_channels", MONO, desired_channels=-2),
   bad("desired_samples", MONO, desired_samples=-2), dynamic=True)

op("EncodeWav",
   case(f32([[0], [1], [-1], [2], [-2], [0.5], [-0.5], [0.99999]]), i32(8000)),
   case(f32([[k / 65536] for k in range(5, -6, -1)]), i32(8000)), # halves
   case(f32([[nan], [inf], [1e-30], [-inf]]), i32(8000)),
   case(f32([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]]), i32(44100)),
   case(f32([[0.1, 0.2]])[:0], i32(1)), case(f32([[0.25]]), i32(2000000000)),
   bad("channels", f32([[0.1]])[:, :0], i32(8000)),
   bad("audio", f32([0.5]), i32(8000)), bad("sample_rate", f32([[0.5]]), i32(0)),
   bad("sample_rate", f32([[0.5]]), i32(-1)),
   bad("sample_rate", f32([[0.5]]), i32([8000])), dynamic=True)

# ---- spectrograms ------------------------------------------------------------


def wave(*shape):
    """Numbers in [-1, 1) without a period."""
    n = int(np.prod(shape))
    return (np.mod(np.arange(n) * 0.754877666 + 0.3, 1) * 2 - 1) \
        .reshape(shape).astype(np.float32)


SOUND = wave(20, 2)

op("AudioSpectrogram",
   *[case(SOUND, window_size=w, stride=s, magnitude_squared=q)
     for w, s, q in ((8, 4, False), (8, 4, True), (5, 3, False), (20, 1, True),
                     (21, 1, True), (2, 1, False), (3, 50, False))],
   case(wave(300, 1), window_size=130, stride=60), # more than a plan for tiles
   case(SOUND[:0], window_size=4, stride=1),
   case(SOUND[:, :0], window_size=4, stride=1),
   case(f32([[nan], [1], [2], [3], [4], [5]]), window_size=4, stride=2),
   bad("window_size", SOUND, window_size=1, stride=1),
   bad("window_size", SOUND, window_size=0, stride=1),
   bad("stride", SOUND, window_size=4, stride=0),
   bad("input", SOUND[0], window_size=4, stride=1),
   near=(0, 0, 4, 0, 0), scaled=True, dynamic=True)

SPECTRUM = (wave(2, 1, 33) + 1) / 2

op("Mfcc",
   case(SPECTRUM, i32(16000)), case(SPECTRUM, i32(8000)),
   case(SPECTRUM, i32(16000), upper_frequency_limit=7600,
        lower_frequency_limit=100, filterbank_channel_count=20,
        dct_coefficient_count=20),
   case(SPECTRUM, i32(16000), lower_frequency_limit=0),
   case(SPECTRUM, i32(16000), upper_frequency_limit=8000),
   case(SPECTRUM, i32(16000), filterbank_channel_count=200,
        dct_coefficient_count=3), # triangles without a frequency
   case(SPECTRUM[..., :2], i32(16000)), case(SPECTRUM * 0, i32(16000)),
   case(-SPECTRUM, i32(16000)), case(SPECTRUM * np.float32(nan), i32(16000)),
   case(SPECTRUM[:, :0], i32(16000)), case(SPECTRUM[:0], i32(16000)),
   bad("dct_coefficient_count", SPECTRUM, i32(16000), dct_coefficient_count=41),
   bad("dct_coefficient_count", SPECTRUM, i32(16000), dct_coefficient_count=0),
   bad("filterbank_channel_count", SPECTRUM, i32(16000),
       filterbank_channel_count=0),
   bad("lower_frequency_limit", SPECTRUM, i32(16000), lower_frequency_limit=-1),
   bad("frequency_limit", SPECTRUM, i32(16000), lower_frequency_limit=5000),
   bad("sample_rate", SPECTRUM, i32(0)), bad("sample_rate", SPECTRUM, i32(-1)),
   bad("sample_rate", SPECTRUM, i32([8000])),
   bad("frequencies", SPECTRUM[..., :1], i32(16000)),
   bad("frequencies", SPECTRUM[..., :0], i32(16000)),
   bad("spectrogram", SPECTRUM[0], i32(16000)),
   near=(0, 0, 8, 0, 0), scaled=True, dynamic=True)
