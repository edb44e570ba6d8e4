#!/usr/bin/env python3
"""Models and kernels on a card, beside PyTorch, in one command.

    make bench-gpu

A row's contestants take turns, so that what the machine does meets all of them;
a figure is the median of the rounds, a ratio ours by the peer's. A peer that is
not installed, or that fails, is left out and told. --small is for machines
without a card: that all run; --device /cpu:0 has ours on the processor.

usage: gpu.py [--build DIR] [--library SO] [--rows "A B"] [--rounds N] [--small]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The ratio that is wanted to the best peer.
ROWS = {"alexnet": 1.0, "overfeat": 1.0, "vgg_a": 1.0, "googlenet": 1.0, "inception_v3": 1.0,
        "resnet50": 1.0, "lstm_650": 1.0, "lstm_1500": 1.0, "transformer": 1.1,
        "matmul_bf16": 1.1, "tiny_kernels": 0.5, "elementwise": 1.0, "sparse": 1.0}
PEERS = {"eager": "gpu_torch.py", "compiled": "gpu_torch.py"}


class Contestant:
    def __init__(self, name, command, env, log):
        self.name, self.times = name, []
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log)

    def read(self, until=None):
        """A line; with `until` those before it are let go."""
        for line in self.process.stdout:
            if until is None or line.strip() == until:
                return line.strip()
        raise RuntimeError(f"{self.name} ended")

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.times.append(float(self.read()))

    def end(self):
        self.process.kill()
        self.process.wait()


def commands(row, args, env):
    small = ["--small"] if args.small else []
    yield "tide", [os.path.join(args.build, "tide"), os.path.join(HERE, "gpu.lua"), row,
                   *small], env
    for name in args.peers:
        # Ours has libraries of its own beside it; a peer has the machine's.
        yield name, [args.python, os.path.join(HERE, PEERS[name]), row, name, *small], os.environ


def measure(row, args, env, log):
    """Seconds by contestant; why one has none."""
    started, why = [], {}
    try:
        for name, command, its in commands(row, args, env):
            c = Contestant(name, command, its, log)
            started.append(c)
            try:
                c.read("ready")
            except RuntimeError as e:
                why[name] = str(e)
        running = [c for c in started if c.name not in why]
        for i in range(args.rounds):
            for c in running if i % 2 == 0 else running[::-1]:
                try:
                    if c.name not in why:
                        c.go()
                except (RuntimeError, ValueError, OSError) as e:
                    why[c.name] = str(e) or "it failed"
    finally:
        for c in started:
            c.end()
    return {c.name: statistics.median(c.times) for c in started
            if c.times and c.name not in why}, why


def installed(python):
    return subprocess.run([python, "-c", "import torch"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def show(row, seconds, why):
    peers = {n: s for n, s in seconds.items() if n != "tide"}
    ratio = seconds["tide"] / min(peers.values()) if peers and "tide" in seconds else None
    text = "  ".join(f"{n} {s * 1e3:9.4g} ms" for n, s in seconds.items())
    print(f"{row:14} {text}  ratio {'-' if ratio is None else f'{ratio:.2f}':>5}  "
          f"goal {ROWS[row]}  {' '.join(sorted(why.values()))}".rstrip(), flush=True)
    return ratio


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--library")
    p.add_argument("--rows", default="")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=int, default=560)
    p.add_argument("--device", default="/gpu:0")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--out", default=os.environ.get("OUT") or "build")
    p.add_argument("--small", "--brief", action="store_true")
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    library = args.library or os.path.join(args.build, "libtide_cuda.so")
    beside = os.path.join(args.build, "lib")
    env = dict(os.environ, TIDE_LIBRARY=os.path.abspath(library), TIDE_PLUGINS="",
               TIDE_BENCH_DEVICE=args.device)
    if os.path.isdir(beside):
        env["LD_LIBRARY_PATH"] = beside
    env.setdefault("TIDE_CUDA_LIBS", ":".join(sorted(
        {os.path.dirname(f) for path in sys.path
         for f in glob.glob(os.path.join(path, "nvidia/*/lib/*.so*"))})))
    args.peers = list(PEERS) if installed(args.python) else []
    wanted, end, found = args.rows.split() or list(ROWS), time.time() + args.seconds, []
    if unknown := [row for row in wanted if row not in ROWS]:
        p.error(f"no row {unknown[0]}; there are {' '.join(ROWS)}")
    print("beside", ", ".join(args.peers) or "nobody: torch is not installed")
    os.makedirs(args.out, exist_ok=True)
    failed = 0
    with open(os.path.join(args.out, "bench-gpu.log"), "w", encoding="utf-8") as log:
        for row in wanted:
            if time.time() > end:
                print(f"{row:14} no time was left")
                continue
            seconds, why = measure(row, args, env, log)
            failed += "tide" not in seconds
            found.append({"name": row, "seconds": seconds, "why": why, "goal": ROWS[row],
                          "ratio": show(row, seconds, why)})
            with open(os.path.join(args.out, "bench-gpu.json"), "w", encoding="utf-8") as f:
                json.dump({"date": time.strftime("%F"), "small": args.small, "rows": found},
                          f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
