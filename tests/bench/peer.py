"""What the peers' processes share: threads, timing, the answering loop."""
import sys
import time

# Op, lines and length of Fourier transforms.
TRANSFORMS = {
    "fft_lines": ("fft", 1000, 1000), "fft_long": ("fft", 1, 1 << 20),
    "fft_prime": ("fft", 1, 100003), "fft_image": ("fft2d", 512, 512),
    "fft_reals": ("rfft", 64, 4096)}

# name: batch, size, channels in and out, filter, stride; as in ours.lua
CONVOLUTIONS = {
    "conv_3x3": (16, 56, 64, 64, 3, 1), "conv_5x5": (100, 14, 32, 64, 5, 1),
    "conv_1x1": (16, 28, 256, 64, 1, 1), "conv_7x7": (8, 224, 3, 64, 7, 2),
}


def arguments():
    return sys.argv[1], int(sys.argv[2])


def timed(work, units):
    """Seconds per unit, over at least 20 ms."""
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            work()
        took = time.perf_counter() - start
        if took >= 0.02:
            return took / times / units
        times *= int(0.025 / took) + 1 if took > 0.004 else 4


def rest():
    """Until nothing is computed ahead any more."""
    while True:
        before = time.process_time()
        time.sleep(0.02)
        if time.process_time() - before < 1e-3:
            return


def serve(work, units, ahead=0):
    """`ahead`: so many calls empty what is ready, as in ours.lua."""
    for _ in range(5):
        work()
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(ahead):
            work()
        took = timed(work, units)
        if ahead:
            rest()
        print(f"{took:.9g}", flush=True)
