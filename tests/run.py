#!/usr/bin/env python3
"""Runs every test and counts: the last line is "N passed, N failed, N skipped".

A part is a list of commands. A command's own counts are read from its output
(cmocka's summary, or a last line in the form above); one that prints none
counts as a single test by its exit code. Skips must be listed in skips.txt.
How long each took goes to DIR/test-times.txt, the slowest first: a command, and
the tests in it that it prints in lines such as "fold.cse: 1.2 s".
With --soak everything runs at full counts, and what each command says is kept
in DIR/soak.log, for the figures in it. With --device the only part is the
conformance of one device: a type, the op library that makes it, or workers:
"worker" for those of the tests' own process, an address for one that runs.

usage: run.py [--build DIR] [--soak] [--fuzz SECONDS] [--device DEVICE] [PART ...]
"""
import argparse
from concurrent.futures import ThreadPoolExecutor
import glob
import itertools
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLAIN = re.compile(r"^(?:\S+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?"
                   r"(?:, (\d+) excepted)?$")
CMOCKA = re.compile(r"^\[\s+(PASSED|FAILED|SKIPPED)\s+\] (\d+) test")
TIME = re.compile(r"^([A-Za-z_][\w./-]*): (\d+\.\d) s$", re.M)
SKIP = re.compile(r"^(?:\[\s+SKIPPED\s+\] |skip: )([A-Za-z_]\S*)")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = self.excepted = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.excepted += other.excepted

    def __str__(self):
        excepted = f", {self.excepted} excepted" if self.excepted else ""
        return (f"{self.passed} passed, {self.failed} failed, "
                f"{self.skipped} skipped{excepted}")


def count_output(text, code):
    """Counts and names of skips from one command's output."""
    count, names, plain = Count(), [], None
    for line in text.splitlines():
        line = line.strip()
        if m := PLAIN.match(line):
            plain = m
        elif m := CMOCKA.match(line):
            n = int(m[2])
            if m[1] == "PASSED":
                count.passed += n
            elif m[1] == "FAILED":
                count.failed += n
            else:
                count.skipped += n
        elif m := SKIP.match(line):
            names.append(m[1].rstrip(":"))
    if plain:
        count.passed, count.failed = int(plain[1]), int(plain[2])
        count.skipped, count.excepted = int(plain[3] or 0), int(plain[4] or 0)
    if count.passed + count.failed + count.skipped == 0:
        count.passed, count.failed = (1, 0) if code == 0 else (0, 1)
    if code != 0 and count.failed == 0:
        count.failed = 1
    return count, names


def run_command(command, env, timeout, allowed, log):
    """Its counts, and (seconds, name) of it and of tests in it."""
    full, start = dict(os.environ, **env), time.time()
    try:
        r = subprocess.run(command, cwd=ROOT, env=full, timeout=timeout,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, errors="replace", check=False)
        text, code = r.stdout, r.returncode
    except subprocess.TimeoutExpired as e:
        text = (e.stdout or b"").decode(errors="replace") + f"\ntimed out after {timeout} s"
        code = 124
    except FileNotFoundError:
        text, code = "it is not built", 127
    took = time.time() - start
    count, names = count_output(text, code)
    bad = [n for n in names if not any(a.fullmatch(n) for a in allowed)]
    if bad:
        count.failed += len(bad)
        text += "\nskipped without being listed in tests/skips.txt: " + ", ".join(bad)
    if log:
        log.write(f"--- {' '.join(command)} ({took:.1f} s)\n{text}\n")
        log.flush()
    if count.failed:
        print(f"--- {' '.join(command)} (exit {code})\n{text}\n---", flush=True)
    name = next((c for c in command if "tests/" in c), command[0])
    times = [(float(s), f"{name} {inner}") for inner, s in TIME.findall(text)]
    return count, [(took, name), *times]


def c_tests(build, which):
    """Programs of the C tests that patterns of sources below tests/ mean.

    In sim, what has a header is shared by tests and is none."""
    found = set()
    for pattern in which:
        files = glob.glob(pattern, root_dir=os.path.join(ROOT, "tests"))
        shared = {f for f in files if f.startswith("sim/") and
                  os.path.exists(os.path.join(ROOT, "tests", f[:-1] + "h"))}
        found |= {f[:-2] for f in set(files) - shared or [pattern + " (nothing)"]}
    return [[os.path.join(build, "tests", f)] for f in sorted(found)]


def listed(name):
    """The lines of a file of this folder, without comments."""
    with open(os.path.join(ROOT, "tests", name), encoding="utf-8") as f:
        lines = [line.split("#")[0].strip() for line in f]
    return [line for line in lines if line]


# Targets that get more of the time than others: what is read of other machines.
FUZZ_LONGER = {"wire": 2}


def fuzz_targets(build, seconds):
    """From the corpus in the tree and what earlier runs found, kept aside."""
    found = []
    for f in sorted(os.listdir(os.path.join(ROOT, "tests/fuzz"))):
        name, end = os.path.splitext(f)
        if end != ".c":
            continue
        kept = os.path.join(build, "fuzz/found", name)
        os.makedirs(os.path.join(ROOT, kept), exist_ok=True)
        found.append([os.path.join(build, "fuzz", name),
                      f"-max_total_time={seconds * FUZZ_LONGER.get(name, 1)}", "-rss_limit_mb=4096",
                      "-verbosity=0", f"-artifact_prefix={build}/fuzz/{name}-",
                      kept, f"tests/fuzz/corpus/{name}"])
    return found


def in_venv(build, script, which="", venv="venv"):
    """A command in the Python of tests/requirements.txt; a skip without it.

    `which` names the build to be tested, in the folder of the plain one. The
    Python of `make lab` is `lab`."""
    venv = os.path.join(ROOT, build, venv)
    if os.path.exists(os.path.join(venv, ".done")):
        return [os.path.join(venv, "bin/python"), script, build + which]
    return ["printf", f"skip: venv-{script}\n0 passed, 0 failed, 1 skipped\n"]


# Each source is a program, but tests/rows is one of several.
C_TESTS = ["engine/*/*.c", "kernels/*.c", "kernels/*/*.c", "lua/console/*.c", "repl/*.c",
           "rows/rows.c", "sim/*.c"]


# Their full counts take hours: soak/remote goes on where it stopped.
IN_UNITS = ("engine/remote/random_graphs", "engine/remote/hostile", "sim/remote")


def short(commands):
    return [["env", "-u", "TIDE_SOAK", *c] if c[-1].endswith(IN_UNITS) else c for c in commands]


# Ways in which the tests of the Lua library compute their values (modes.txt).
MODES = ["roundtrip", "two", "test"]


# What a device must be able to do, beside the rows of all ops.
DEVICE_C = ["engine/run/session.c", "engine/run/state.c", "engine/run/frames.c",
            "engine/run/numerics.c"]
DEVICE_MORE_C = ["engine/run/stops.c", "engine/run/random_graphs.c"]
DEVICE_ASKED_C = ["engine/run/session.c", *DEVICE_MORE_C]
DEVICE_LUA = ["devices", "gradients", "golden", "loops", "control", "arrays", "func", "rnn",
              "variables", "train"]


def on_device(device, command, library=""):
    env = {"TIDE_TEST": "test", "TIDE_DEVICE": device}
    if library:
        env["TIDE_LIBRARY"] = os.path.abspath(library)
    return ["env", *(f"{k}={v}" for k, v in env.items()), *command]


def type_made_by(tide, library):
    """The type of device that an op library brings."""
    code = ('local td = require "tide" td.load_library(os.getenv "TIDE_LIBRARY") '
            'for _, d in ipairs(td.devices()) do print(d:match "device:(%w+):0$") end')
    r = subprocess.run([tide, "-e", code], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                       check=True, env=dict(os.environ, TIDE_LIBRARY=os.path.abspath(library)))
    found = [t for t in r.stdout.split() if t not in ("CPU", "TEST")]
    if not found:
        sys.exit(f"{library} makes no device")
    return found[0]


# Files of tests/lua whose sessions attach what TIDE_FLEET says (shared/fleet.lua).
FLEET_LUA = DEVICE_LUA


# C tests that make their sessions over workers (session_new of fleet.h).
FLEET_C = [f"engine/run/{name}.c" for name in ("session", "state", "frames", "stops")]


def fleet_of(device):
    """The values of TIDE_FLEET that a DEVICE means; none: it is no worker."""
    if "://" in device:
        return [device]
    return {"worker": ["worker-ipc", "worker-tcp", "two"], "two": ["two"],
            "worker-ipc": ["worker-ipc"], "worker-tcp": ["worker-tcp"]}.get(device, [])


def conformance_of_workers(build, fleets, brief=False):
    """Workers: in the process of the tests, or one that is there already. Brief
    is without what part c has of them, or one fleet or process for all."""
    tide = os.path.join(build, "tide")
    in_process = not any("://" in f for f in fleets)
    commands = []
    for f in fleets:
        env = ["env", f"TIDE_FLEET={f}"]
        which = ["rows/rows.c"] + ([] if brief else ["engine/remote/steps.c"])
        if in_process:  # with ops of their own
            which += [c for c in FLEET_C if not brief or f == "two" or "session" not in c]
        commands += [[*env, *c] for c in c_tests(build, which)]
        files = [name for name in FLEET_LUA if not brief or name != "golden"]
        if brief and f != "two":
            files.remove("devices")
        commands.append([*env, "TIDE_TEST=worker", tide, "tests/lua/run.lua", *files])
    if in_process and not brief:
        commands += c_tests(build, ["engine/remote/remote.c", "engine/remote/random_graphs.c"])
    return commands


def conformance(build, device):
    """One device through everything: op rows with golden vectors, steps, loops,
    random graphs, gradients. Those of the C tests that ask which device it is
    take one of a library, too."""
    if fleets := fleet_of(device):
        return conformance_of_workers(build, fleets)
    tide, library = os.path.join(build, "tide"), ""
    if "/" in device or device.endswith(".so"):
        library, device = device, type_made_by(tide, device)
    commands = c_tests(build, ["rows/rows.c", *(DEVICE_ASKED_C if library else
                                                DEVICE_C + DEVICE_MORE_C)])
    commands.append([tide, "tests/lua/run.lua", *DEVICE_LUA])
    return [on_device(device, c, library) for c in commands]


CUDA_SHORT = ["blas", "cudnn", "device", "memory", "plans", "table", "trace"]


def cuda(build, soak=False):
    """The plugin on the runtime that is none: its tests, and at full counts all op
    rows, and ops beside the CPU's. A skip where CUDA is not installed."""
    fake = os.path.join(build, "cuda-fake/libtide_cuda.so")
    if not os.path.exists(os.path.join(ROOT, fake)):
        return [["printf", "skip: cuda_toolkit\n0 passed, 0 failed, 1 skipped\n"]]
    on_card = ["env", f"TIDE_LIBRARY={os.path.abspath(fake)}"]
    which = ["cuda/*.c"] if soak else [f"cuda/{name}.c" for name in CUDA_SHORT]
    tests = [[*on_card, *c] for c in c_tests(build, which)]
    if "thread" in os.path.basename(build):  # with few kernels
        return [c for c in tests if c[-1].endswith("/device")]
    # NVIDIA's own libraries, which plans opens, give nothing back at the end.
    tests = [["env", "ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0", *c]
             if c[-1].endswith("/plans") else c for c in tests]
    if not soak:
        return tests
    lua = ["tests/cuda/compare.lua", "tests/cuda/swap.lua"]  # make gpu has the others
    return [*tests, [*on_card, "TIDE_DEVICE=CUDA", os.path.join(build, "tests/rows/rows")],
            *([*on_card, os.path.join(build, "tide"), f] for f in lua)]


def programs(folder):
    """Tests that are programs; files with an ending are what these use."""
    found = sorted(glob.glob(f"tests/{folder}/*", root_dir=ROOT))
    return [f for f in found if "." not in f and not os.path.isdir(os.path.join(ROOT, f))]


def parts(build, soak, fuzz):
    tide = os.path.join(build, "tide")
    # AddressSanitizer misreads the thread-local memory of libraries opened at
    # run time (oneDNN's) and then crashes when it looks for leaks.
    asan = {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1:"
                            "quarantine_size_mb=8:intercept_tls_get_addr=0",
            "UBSAN_OPTIONS": "print_stacktrace=1"}
    tsan = {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:"
                            "suppressions=tests/tsan.supp"}
    scale = {"TIDE_SOAK": "1"} if soak else {}
    # These have a short form.
    long = programs("soak") if soak else ["tests/soak/opfuzz", "tests/soak/steady"]
    every = {
        "c": (short(c_tests(build, C_TESTS)), scale),
        "c-address": (short(c_tests(build + "/address-undefined", C_TESTS)), {**asan, **scale}),
        "c-thread": (c_tests(build + "/thread", listed("thread.txt")), {**tsan, **scale}),
        "cuda": (cuda(build + "/address-undefined", soak),
                 {**asan, "ASAN_OPTIONS": asan["ASAN_OPTIONS"] + ":detect_odr_violation=0", **scale}),
        "cuda-thread": (cuda(build + "/thread"), {**tsan, **scale}),
        "workers": (short(conformance_of_workers(build, fleet_of("worker"), not soak)), scale),
        "lua": ([[tide, "tests/lua/run.lua"]], scale),
        # The rest of their conformance is in c and lua-test.
        "device": ([on_device(d, c) for d, which in (("CPU", []), ("TEST", DEVICE_C))
                    for c in c_tests(build, ["rows/rows.c", *which])], scale),
        **{f"lua-{mode}": ([[tide, "tests/lua/run.lua"]], {"TIDE_TEST": mode, **scale})
           for mode in MODES},
        "fuzz": (fuzz_targets(build, fuzz), {}),
        "shell": ([[f, build] for f in programs("shell")], scale),
        "jupyter": ([in_venv(build, "tests/jupyter/run.py")], scale),
        "prompt": ([in_venv(build, "tests/prompt/run.py"),
                    ["env", *(f"{k}={v}" for k, v in asan.items()),
                     *in_venv(build, "tests/prompt/run.py", "/address-undefined")]], scale),
        "notebook": ([in_venv(build, "tests/notebook/run.py")], scale),
        "soak": ([[f, build] for f in long], scale),
    }
    if soak:
        every["lab"] = ([in_venv(build, "tests/lab/run.py", venv="lab")], scale)
    return every


def run_part(part, timeout, allowed, log):
    """Its counts, and (seconds, part, test) of what ran. A fuzz target uses one
    core, and a step over a worker waits, so two of them run at once."""
    name, (commands, env) = part
    start, count, times = time.time(), Count(), []
    if not commands:
        print(f"{name}: nothing was found to run")
        count.failed = 1
    with ThreadPoolExecutor(2 if name in ("fuzz", "workers") else 1) as threads:
        run = [threads.submit(run_command, c, env, timeout, allowed, log) for c in commands]
    for of_command, took in (r.result() for r in run):
        count.add(of_command)
        times += [(seconds, name, test) for seconds, test in took]
    print(f"{name:13} {time.time() - start:7.1f} s  {count}", flush=True)
    return count, times


def side_by_side(chosen):
    """The parts in groups: modes use one core, so two of them run at once."""
    modes = {f"lua-{m}" for m in MODES}
    for is_mode, group in itertools.groupby(chosen.items(), lambda part: part[0] in modes):
        yield (2 if is_mode else 1), list(group)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--soak", action="store_true")
    p.add_argument("--fuzz", type=int, default=20)
    p.add_argument("--device")
    p.add_argument("part", nargs="*")
    args = p.parse_args()
    allowed = [re.compile(line) for line in listed("skips.txt")]
    total, times = Count(), []
    timeout = 3 * 3600 if args.soak else 900
    log = None
    if args.soak:
        log = open(os.path.join(args.build, "soak.log"), "w", encoding="utf-8")
    chosen = {name: part for name, part in parts(args.build, args.soak, args.fuzz).items()
              if not args.part or name in args.part}
    if args.device:
        chosen = {"conformance": (conformance(args.build, args.device), {})}
    for at_once, group in side_by_side(chosen):
        with ThreadPoolExecutor(at_once) as threads:
            run = [threads.submit(run_part, p, timeout, allowed, log) for p in group]
        for count, took in (r.result() for r in run):
            total.add(count)
            times += took
    times.sort(reverse=True)
    with open(os.path.join(args.build, "test-times.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{seconds:8.1f}  {part:12} {test}\n" for seconds, part, test in times)
    print("the slowest:", *(f"{part} {test} {seconds:.0f} s" for seconds, part, test in times[:10]),
          sep="\n  ")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
