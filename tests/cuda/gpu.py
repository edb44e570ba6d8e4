#!/usr/bin/env python3
"""The whole list on a machine with a GPU, in ten minutes, and one report.

    make gpu                 builds and runs it there
    make gpu-tree            here: all that travels there; then GPU_TREE/gpu

A part is a group of commands that run side by side, under a limit of its own;
what is left of the ten minutes bounds the later ones. DIR/report.txt is written
anew after each part, DIR/log.txt has what all commands said. The last line is
"N passed, N failed, N skipped".

--brief takes a few of each, for the fake runtime: --library
build/cuda-fake/libtide_cuda.so.

usage: gpu.py [--build DIR] [--library SO] [--out DIR] [--seconds N] [--brief]
              [PART ...]
SPDX-License-Identifier: Apache-2.0
"""
import argparse
from concurrent.futures import ThreadPoolExecutor
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import run  # noqa: E402

LUA = ["gradients", "golden", "loops", "control", "arrays", "func", "rnn", "variables", "train"]
MODELS = ["alexnet", "overfeat", "vgg_a", "googlenet", "inception_v3", "resnet50"]
NETS = ["mlp", "lenet", "normalized_and_dropped", "lstm", "gru", "attention", "while_loop",
        "scan_and_branch"]
# A tutorial, and what of its last lines is a measure of what was learnt.
LEARNING = {"mnist_convnet": r"test_accuracy: ([\d.]+)", "cifar10": r"test_accuracy: ([\d.]+)",
            "char_rnn": r"([\d.]+) nats a character"}
BRIEF_OPS = ["MatMul", "Add", "Softmax", "Sum", "GatherV2"]


class Setting:
    """Where things are, and what the environment of the commands is."""

    def __init__(self, args):
        self.args = args
        self.build, self.out = os.path.abspath(args.build), os.path.abspath(args.out)
        self.tide = os.path.join(self.build, "tide")
        self.library = os.path.abspath(args.library or
                                       os.path.join(self.build, "libtide_cuda.so"))
        self.end = time.time() + args.seconds
        self.env = dict(os.environ, TIDE_PLUGINS=self.library)
        beside = os.path.join(self.build, "lib")  # make gpu-tree
        if os.path.isdir(beside):
            self.env["LD_LIBRARY_PATH"] = beside
            self.env["LUA_PATH"] = f"{beside}/?.lua;;"
        self.env.setdefault("TIDE_CUDA_LIBS", ":".join(wheels()))

    def tests(self, *words):
        return os.path.join(self.build, "tests", *words)


def wheels():
    """Folders of libraries in the wheels that this Python has."""
    return sorted({os.path.dirname(f) for p in sys.path
                   for f in glob.glob(os.path.join(p, "nvidia/*/lib/*.so*"))})


class Command:
    """One command: its words, what its environment has beside, how it is judged."""

    def __init__(self, words, judge=None, **env):
        self.words, self.env, self.judge = words, env, judge
        self.text, self.code, self.took = "", None, 0.0

    def run(self, setting, limit):
        begun = time.time()
        limit = min(limit, setting.end - begun)
        if limit <= 1:
            self.text, self.code = "there was no time left", 124
            return self
        try:
            p = subprocess.Popen(self.words, cwd=ROOT, env={**setting.env, **self.env},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, errors="replace",
                                 start_new_session=True)
        except OSError as e:
            self.text, self.code = str(e), 127
            return self
        try:
            self.text, _ = p.communicate(timeout=limit)
            self.code = p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            self.text = p.communicate()[0] + f"\ntimed out after {limit:.0f} s"
            self.code = 124
        self.took = time.time() - begun
        return self

    def count(self):
        if self.judge:
            return self.judge(self)
        count, _ = run.count_output(self.text, self.code)
        return count


def counted(passed=0, failed=0, skipped=0):
    count = run.Count()
    count.passed, count.failed, count.skipped = passed, failed, skipped
    return count


def told(command):
    """For the report; nothing is expected of it."""
    return counted(skipped=command.code in (124, 127))


def shards(words, names, at_once, **env):
    """The command for all names, as so many commands."""
    return [Command(words + names[i::at_once], **env) for i in range(at_once) if names[i::at_once]]


# ---- the parts ---------------------------------------------------------------

def facts(s):
    """What there is: it stands in the report whole."""
    python = ("import torch, jax; print('torch', torch.__version__, 'cudnn', "
              "torch.backends.cudnn.version(), 'jax', jax.__version__)")
    return [Command(["nvidia-smi"], told), Command([s.tide, "doctor"], told),
            Command(["nvcc", "--version"], told), Command([sys.executable, "-c", python], told),
            Command([s.tide, "-e", 'local td = require "tide" local n = 0 '
                     'for _, d in ipairs(td.devices()) do print(d) '
                     'if d:find "CUDA" then n = n + 1 end end '
                     'print(n > 0 and "1 passed, 0 failed" or "0 passed, 1 failed")'])]


def rows(s):
    """TensorFlow's answers for every op."""
    names = BRIEF_OPS
    if not s.args.brief:
        r = subprocess.run([s.tests("rows/rows"), "--list"], cwd=ROOT, env=s.env, text=True,
                           stdout=subprocess.PIPE, check=False)
        names = r.stdout.split() or ["no-list-of-ops"]
    return shards([s.tests("rows/rows")], names, s.args.jobs, TIDE_LIBRARY=s.library,
                  TIDE_DEVICE="CUDA")


def compare(s):
    """Ops of chance inputs beside the processor, at odd sizes."""
    found = sorted(os.path.basename(f)[:-4]
                   for f in glob.glob(os.path.join(ROOT, "tests/cuda/compare/*.lua")))
    seeds = ["1"] if s.args.brief else ["1", "2", "3"]
    return [Command([s.tide, "tests/cuda/compare.lua", "-s", seed, family],
                    TIDE_LIBRARY=s.library)
            for family in (found[-1:] if s.args.brief else found) for seed in seeds]


def engine(s):
    """Sessions, what stops them, random graphs."""
    env = {"TIDE_LIBRARY": s.library, "TIDE_DEVICE": "CUDA", "TIDE_TOLERANCE": "1e-4"}
    graphs = [Command([s.tests("engine/run/random_graphs")], **env,
                      TIDE_SEEDS="1:3" if s.args.brief else f"{200 * i + 1}:200")
              for i in range(1 if s.args.brief else 4)]
    return graphs + [Command([s.tests("engine/run", name)], **env)
                     for name in ([] if s.args.brief else ["session", "stops"])]


def library(s):
    """The tests of the Lua library whose values a device computes."""
    return [Command([s.tide, "tests/lua/run.lua", name], TIDE_LIBRARY=s.library,
                    TIDE_TEST="test", TIDE_DEVICE="CUDA")
            for name in (["func"] if s.args.brief else LUA)]


def steps(s):
    """Training and loops: the curves of the processor."""
    size = [] if s.args.brief else ["--full"]
    names = ["mlp"] if s.args.brief else NETS
    commands = [Command([s.tide, "tests/cuda/steps.lua", *size, name], TIDE_LIBRARY=s.library)
                for name in names]
    return commands + [Command([s.tide, "tests/cuda/steps.lua", name], TIDE_LIBRARY=s.library)
                       for name in ([] if s.args.brief else MODELS)]


def large(s):
    """More elements than 32 bits count."""
    count = ["8211"] if s.args.brief else []
    return [Command([s.tide, "tests/cuda/large.lua", *count], TIDE_LIBRARY=s.library)]


def sanitizer(s):
    """compute-sanitizer over some rows, where the machine has it."""
    tool = shutil.which("compute-sanitizer")
    if not tool:
        return [Command(["echo", "compute-sanitizer is not here"], lambda c: counted(skipped=1))]

    def clean(command):
        if "Device not supported" in command.text:
            return counted(skipped=1)
        good = command.code == 0 and "ERROR SUMMARY: 0 errors" in command.text
        return counted(passed=good, failed=not good)
    ops = BRIEF_OPS + ["Conv2D", "MaxPool", "Cumsum", "TopKV2", "Transpose", "ScatterNd"]
    return [Command([tool, "--tool", kind, "--error-exitcode", "1", s.tests("rows/rows"), *ops],
                    clean, TIDE_LIBRARY=s.library, TIDE_DEVICE="CUDA")
            for kind in ("memcheck", "racecheck", "synccheck", "initcheck")]


def learning(s):
    """Tutorials learn as much on the card as on the processor."""
    smoke = ["--smoke"] if s.args.brief else []
    commands = []
    for name, pattern in LEARNING.items():
        words = [s.tide, f"tutorials/{name}.lua", *smoke]
        host = Command(words, lambda c: counted(failed=c.code != 0), TIDE_PLUGINS="")
        commands += [host, Command(words, as_good_as(host, pattern, s.args.brief))]
    return commands[:2] if s.args.brief else commands


def as_good_as(host, pattern, brief):
    def judge(card):
        a, b = ([float(x) for x in re.findall(pattern, c.text)][-1:] for c in (host, card))
        good = card.code == 0 and (brief or bool(a and b and abs(a[0] - b[0]) <= 0.02 *
                                                 max(1, abs(a[0]))))
        card.text += f"\non the processor {a}, on the card {b}\n"
        return counted(passed=good, failed=not good)
    return judge


# Name, its commands, seconds, how many at once; the longest first.
PARTS = [(facts, 40, 1), (rows, 150, 0), (compare, 90, 0), (engine, 90, 0), (library, 90, 0),
         (steps, 120, 0), (large, 60, 1), (sanitizer, 90, 4), (learning, 120, 0)]


# ---- the report ----------------------------------------------------------------

class Report:
    def __init__(self, setting):
        os.makedirs(setting.out, exist_ok=True)
        self.path = os.path.join(setting.out, "report.txt")
        self.log = open(os.path.join(setting.out, "log.txt"), "w", encoding="utf-8")
        self.parts, self.trouble, self.facts, self.total = [], [], [], run.Count()

    def add(self, name, commands, took):
        part = run.Count()
        for c in commands:
            count, words = c.count(), " ".join(c.words)
            part.add(count)
            self.log.write(f"--- {name}: {words[:300]} ({c.took:.1f} s, exit {c.code})\n"
                           f"{c.text}\n")
            if count.failed:
                self.trouble.append(f"--- {name}: {words[:200]} (exit {c.code})\n"
                                    f"{c.text[-3000:]}\n")
            if name == "facts":
                self.facts.append(c.text.rstrip() + "\n")
        self.log.flush()
        self.total.add(part)
        self.parts.append(f"{name:10} {took:6.1f} s  {part}")
        print(self.parts[-1], flush=True)
        self.write()

    def write(self):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write("\n".join([f"Tide on a GPU, {time.strftime('%F %T')}", "", *self.parts, "",
                               *self.trouble, *self.facts, str(self.total), ""]))
        os.replace(self.path + ".new", self.path)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--library")
    p.add_argument("--out", default=os.environ.get("OUT") or "build/gpu")
    p.add_argument("--seconds", type=int, default=570)
    p.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2))
    p.add_argument("--brief", action="store_true")
    p.add_argument("part", nargs="*")
    args = p.parse_args()
    known = [make.__name__ for make, _, _ in PARTS]
    if unknown := [name for name in args.part if name not in known]:
        p.error(f"no part {unknown[0]}; there are {' '.join(known)}")
    setting = Setting(args)
    report = Report(setting)
    for make, limit, at_once in PARTS:
        if args.part and make.__name__ not in args.part:
            continue
        begun = time.time()
        limit = 600 if args.brief else limit
        with ThreadPoolExecutor(at_once or args.jobs) as threads:
            done = list(threads.map(lambda c, m=limit, e=begun + limit:
                                    c.run(setting, min(m, e - time.time())), make(setting)))
        report.add(make.__name__, done, time.time() - begun)
    print(report.total)
    return 1 if report.total.failed or not report.total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
