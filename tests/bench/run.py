#!/usr/bin/env python3
"""Benchmarks: ratios in one interleaved run, never absolute times.

Each contestant is a process of its own that answers every line "go" on its
standard input with the seconds one unit of work took (it repeats the work for
at least 20 ms). A round is ours, peer, peer, ours (the order alternates),
between two probes of the machine; a round whose probes differ by more than 15 %
or during which others were busy is dropped, counted and made up for, up to
twice as many. The ratio is ours / peer: below 1 is faster. With less than half
of the rounds kept the row is inconclusive.

With --against the only peer is `before`, another build of Tide. A build that
lies in a tree of its own (DIR/..) is measured by the programs of that tree.
Both are copied first, for how a file came into the page cache shows in the
memory of who maps it.

usage: run.py [--build DIR] [--rows "a b"] [--peers tensorflow,torch,jax]
              [--python PYTHON] [--rounds N] [--against DIR]
"""
import argparse
import atexit
import collections
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import prompt

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join("tests", "bench")

# row: (unit, thread counts, peers, goal of ours / best peer, or with a unit)
ROWS = {
    "dispatch_chain": ("s/node", [1], ["tensorflow"], 0.3),
    "dispatch_independent": ("s/node", [1], ["tensorflow"], 0.3),
    "dispatch_layered": ("s/node", [1], ["tensorflow"], 0.3),
    "dispatch_chains8": ("s/node", [1], ["tensorflow"], 0.3),
    "dispatch_mix": ("s/step", [2], ["ours:1"], 0.6),
    "null_run_c": ("s/run", [1], [], "1e-6 s"),
    "null_run_lua": ("s/run", [1], ["tensorflow"], 0.5),
    "async_nothing": ("s/node", [1, 2], ["row:inline_nothing"], 1.5),
    "while_loop": ("s/iteration", [1], ["tensorflow"], 0.33),
    "while_grad": ("s/iteration", [1, 2], ["tensorflow"], 0.6),
    "mlp_step": ("s/step", [1, 2], ["tensorflow", "torch", "jax"], 0.65),
    "sgemm_64": ("s/call", [1, 2], ["tensorflow", "torch"], 1.15),
    "sgemm_512": ("s/call", [1, 2], ["tensorflow", "torch"], 1.15),
    "sgemm_1024": ("s/call", [1, 2], ["tensorflow", "torch"], 1.15),
    "sgemm_2048": ("s/call", [1, 2], ["tensorflow", "torch"], 1.15),
    **{f"conv_{size}{step}": ("s/call", [1, 2], ["tensorflow", "torch", "jax"], 0.9)
       for size in ("3x3", "5x5", "1x1", "7x7") for step in ("", "_step")},
    **{f"fft_{row}": ("s/call", [1, 2], ["tensorflow", "torch"], 2)
       for row in ("lines", "long", "prime", "image", "reals")},
    "parse_examples": ("s/Example", [1, 2], ["tensorflow"], 0.67),
    "softmax_xent": ("s/call", [1, 2], ["tensorflow", "torch"], 0.6),
    "sparse_sgd": ("s/step", [1, 2], ["tensorflow", "torch"], 0.6),
    **{f"table_lookup{of}": ("s/key", [1, 2], ["tensorflow"], 0.65)
       for of in ("", "_int", "_mutable", "_mutable_int")},
    "ptb_lstm_step": ("s/step", [1, 2], ["tensorflow", "torch"], 0.7),
    "lenet_step": ("s/step", [1, 2], ["tensorflow", "torch"], 0.9),
    **{f"{model}{step}": ("s/call", [1, 2], ["tensorflow", "torch"], 1.0)
       for model in ("vgg_a", "inception_v3", "resnet50") for step in ("", "_step")},
    "records_read": ("s/record", [1, 2], ["tensorflow"], 0.67),
    "queue_pairs": ("s/pair", [1, 2], ["tensorflow"], 0.2),
    "shuffled_batches": ("s/row", [1, 2], ["tensorflow"], 0.67),
    "pictures_read": ("s/picture", [1, 2], ["tensorflow"], 0.67),
    "cifar10_fed": ("s/step", [1, 2], ["row:cifar10_memory"], 1.05),
    **{f"checkpoint_{way}": ("s", [1], [f"row:checkpoint_{way}_raw", "tensorflow"], 1.2)
       for way in ("save", "load")},
    **{f"channel_{row}": (unit, [2], [f"row:channel_{row}_raw"], 1.1)
       for row, unit in (("ping_ipc", "s/round trip"), ("ping_curve", "s/round trip"),
                         ("bulk_ipc", "s"), ("bulk_curve", "s"))},
    # of a worker in another process; three rows beside TensorFlow's servers
    **{f"worker_null_{how}": ("s/step", [2], [f"row:round_{how}"], 1.6)
       for how in ("ipc", "curve")},
    **{f"worker_loop_{how}": ("s/iteration", [2], [f"row:round_{how}"], 1.8)
       for how in ("ipc", "curve")},
    "worker_null_one": ("s/step", [2], ["tensorflow"], 0.2),
    "worker_null_two": ("s/step", [2], ["tensorflow"], 0.08),
    "worker_loop_far": ("s/iteration", [2], ["tensorflow"], 0.13),
    "worker_fetch_far": ("s", [2], ["tensorflow"], 0.15),
    "send_recv": ("s/round trip", [2], ["row:round_ipc"], 1.3),
    **{f"fetch_{how}": ("s", [2], [f"row:channel_bulk_{how}_raw"], 1.15)
       for how in ("ipc", "curve")},
    "fetch_shm": ("s", [2], ["row:fetch_memcpy"], 1.5),
    "worker_beat_p99": ("s", [2], [], "0.05 s"),
    **{f"worker_sparse_{what}_{size}": ("s/step", [2], [f"row:worker_sparse_{what}_64m"], 1.15)
       for what in ("read", "update") for size in ("1g", "4g")},
    "worker_register_first": ("s", [2], ["row:first_run_36000"], 2),
    "worker_register_again": ("s", [2], ["row:worker_register_first"], 1),
    # also beside the same program that does it to nobody: what the machine does
    "worker_null_hostile": ("s/step", [2], ["row:worker_null_curve", "row:worker_null_busy"], 2),
    "idle_workers": ("cores", [1], [], "0.01"),
    # what encryption costs
    "worker_null_cost": ("s/step", [2], ["row:worker_null_ipc"], 1.5),
    "fetch_cost_curve": ("s", [2], ["row:fetch_ipc"], 8),
    **{f"channel_{row}_curve_raw": (unit, [2], [f"row:channel_{row}_tcp_raw"], goal)
       for row, unit, goal in (("ping", "s/round trip", 1.5), ("bulk", "s", 8))},
    # the step that comes first writes to fresh memory: once the weights are copied
    "step_saved": ("s/step", [1, 2], ["row:step_unsaved"], 10),
    "rnn_dynamic": ("s/step", [1, 2], ["row:rnn_unrolled"], 1.05),
    "graph_build": ("s/node", [1], ["tensorflow"], "3.3e-6 s"),
    "growing_run": ("s/run", [1], ["tensorflow"], 0.1),
    "first_run_36000": ("s", [1], [], "0.7 s"),
    "display_graph_36000": ("s", [1], [], "1 s"),
    "load_overrun": ("s", [2], [], "0.1 s"),
    "load_small_p99": ("s", [2], [], "0.02 s"),
    "load_fair": ("most / fewest", [2], [], "2"),
    "start": ("s", [1], [], "0.02 s"),
    "rss": ("MB", [1], [], "15 MB"),
    "idle": ("ticks in 10 s", [1], [], "0"),
    "prompt_start": ("s", [1], [], "0.03 s"),
    "prompt_key": ("s/key", [1], [], "1e-3 s"),
    **{f"jupyter_{row}": (unit, [2], ["ipykernel"], goal) for row, unit, goal in (
        ("start", "s", "0.1 s"), ("rss", "MB", "15 MB"), ("execute", "s", "1.5e-3 s"),
        ("execute_p99", "s", "5e-3 s"), ("complete_p99", "s", "0.01 s"),
        ("complete_busy_p99", "s", "0.1 s"), ("print_million", "s", 1.0),
        ("interrupt", "s", "0.02 s"), ("shutdown", "s", "0.5 s"),
        ("idle", "ticks in 5 s", "0"))},
}

# What --against looks at unless told which rows.
AGAINST = [
    "dispatch_chain", "dispatch_independent", "dispatch_layered", "dispatch_chains8",
    "null_run_c", "null_run_lua", "while_loop", "while_grad", "mlp_step",
    "ptb_lstm_step", "start", "rss", "jupyter_start", "jupyter_rss", "jupyter_execute",
]

# A folder of Tide's products and the tree whose programs measure it.
Build = collections.namedtuple("Build", "folder tree")


class Contestant:
    def __init__(self, command, threads, tree=ROOT):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), TF_CPP_MIN_LOG_LEVEL="3",
                   JAX_PLATFORMS="cpu", TIDE_BENCH_THREADS=str(threads))
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        self.process = subprocess.Popen(
            command, cwd=tree, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.read()  # "ready"

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("contestant ended: " + " ".join(self.process.args))
        return line.strip()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.read())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def probe():
    """Seconds of a fixed piece of arithmetic: a gauge of noise."""
    start, x = time.perf_counter(), 1.0
    for _ in range(100000):
        x = x * 1.0000001 + 1e-9
    return time.perf_counter() - start


def others_busy():
    """Seconds of processor time that everybody used, from /proc/stat."""
    with open("/proc/stat", encoding="ascii") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / os.sysconf("SC_CLK_TCK")


def bootstrap(ratios):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios)))
                     for _ in range(1000))
    return medians[25], medians[974]


def compare(ours, peer, rounds):
    kept, dropped = [], 0
    for c in (ours, peer):
        c.go()
    for i in range(3 * rounds):
        if len(kept) == rounds:
            break
        before = probe()
        busy, wall = others_busy(), time.perf_counter()
        order = [ours, peer, peer, ours] if i % 2 == 0 else [peer, ours, ours, peer]
        times = {id(ours): 0.0, id(peer): 0.0}
        for c in order:
            times[id(c)] += c.go() / 2
        wall = time.perf_counter() - wall
        busy = others_busy() - busy
        after = probe()
        if abs(after / before - 1) > 0.15 or busy > 2.2 * wall + 0.1:
            dropped += 1
        else:
            kept.append((times[id(ours)], times[id(peer)]))
    return kept, dropped


def measure_alone(row, threads, args):
    c = ours(row, threads, args)
    if row in ALONE:
        return c.go()
    c.go()
    value = statistics.median(c.go() for _ in range(args.rounds))
    c.end()
    return value


def start(tide):
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        subprocess.run([tide, "-e", "print(1 + 1)"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def rss(tide):
    code = ('for l in io.lines("/proc/self/status") do local k = l:match("^VmRSS:%s*(%d+)") '
            'if k then print(k) end end')
    out = subprocess.run([tide, "-e", code], capture_output=True, text=True, check=True)
    return int(out.stdout) / 1024


def idle(tide):
    p = subprocess.Popen([tide, "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    p.stdin.write(b'td = require "tide"; s = td.session(); print(s:run(td.zeros{2} + 1))\n')
    p.stdin.flush()
    time.sleep(1)

    def ticks():
        with open(f"/proc/{p.pid}/stat", encoding="ascii") as f:
            v = f.read().split()
        return int(v[13]) + int(v[14])
    begun = ticks()
    time.sleep(10)
    used = ticks() - begun
    p.kill()
    p.wait()
    return used


def idle_workers(tide):
    """Of a core, what 32 workers that a session has attached take while nothing runs."""
    code = ('package.path = "tests/lua/?.lua;" .. package.path; local td = require "tide" '
            'local workers = require "shared.workers"; local sess, all = td.session(), {} '
            'for i = 1, 32 do all[i] = workers.start{task = i - 1}; sess:attach(all[i].address) '
            'end; print(sess:run(td.zeros{2})) for i = 1, 32 do print("pid " .. all[i].pid) end '
            'print "ready"; io.stdout:flush(); io.read() '
            'for i = 1, 32 do all[i]:kill() end')
    p = subprocess.Popen([tide, "-e", code], cwd=ROOT, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    pids = []
    for line in p.stdout:
        if line.startswith("pid "):
            pids.append(int(line[4:]))
        if line == "ready\n":
            break

    def used():
        """ns of all their threads: ticks are too coarse."""
        return sum(int(open(path, encoding="ascii").read().split()[0]) for pid in pids
                   for path in glob.glob(f"/proc/{pid}/task/*/schedstat"))
    time.sleep(2)
    begun, start = used(), time.perf_counter()
    time.sleep(10)
    cores = (used() - begun) * 1e-9 / (time.perf_counter() - start)
    p.communicate("\n")
    return cores if len(pids) == 32 else float("nan")


# Rows of programs in C, by how their names begin.
PROGRAMS = {"checkpoint_": "checkpoint", "channel_": "remote_channel", "round_": "remote_round",
            "fetch_": "remote_fetch", "send_recv": "remote_fetch"}

# Rows of processes that this one starts and looks at.
ALONE = {"start": start, "rss": rss, "idle": idle, "idle_workers": idle_workers, **prompt.ROWS}


class Alone:
    """A contestant in this process."""
    def __init__(self, row, build):
        self.row, self.tide = row, os.path.join(build.folder, "tide")

    def go(self):
        return ALONE[self.row](self.tide)

    def end(self):
        pass


def copied(build, into):
    """A copy of a build, and its own tree where it lies in one."""
    os.makedirs(os.path.join(into, "bench"), exist_ok=True)
    for name in ["tide", *glob.glob("libtide.so.*", root_dir=build)]:
        shutil.copy(os.path.join(build, name), into)
    tree = os.path.dirname(build)
    return Build(into, tree if os.path.exists(os.path.join(tree, HERE, "ours.lua")) else ROOT)


def notebook(row, threads, args, which, build):
    """A client of a kernel, in a Python that has jupyter_client."""
    venv = os.path.join(args.build, "venv/bin/python")
    python = args.python if which != "tide" or not os.path.exists(venv) else venv
    return Contestant([python, os.path.join(HERE, "notebook.py"), build.folder, which, row],
                      threads, build.tree)


def scratch(made=[]):
    """A folder on the disk of the tree: /tmp may be memory."""
    if not made:
        made.append(tempfile.mkdtemp(dir=ROOT, prefix=".bench-"))
        atexit.register(shutil.rmtree, made[0], True)
    return made[0]


def ours(row, threads, args, build=None):
    """Tide as a contestant: this build of it or another."""
    build = build or args.after
    if row in ALONE:
        return Alone(row, build)
    if row.startswith("jupyter_"):
        return notebook(row, threads, args, "tide", build)
    if row == "null_run_c":
        return Contestant([os.path.join(build.folder, "bench/null_run")], threads)
    for start, program in PROGRAMS.items():
        if row.startswith(start):
            return Contestant([os.path.join(build.folder, "bench", program), row, scratch()],
                              threads)
    if row.endswith("_nothing"):
        return Contestant([os.path.join(build.folder, "bench/nothing"), row, str(threads)],
                          threads)
    return Contestant([os.path.join(build.folder, "tide"), os.path.join(HERE, "ours.lua"),
                       row, str(threads)], threads, build.tree)


def opponent(peer, row, threads, args):
    kind, _, which = peer.partition(":")
    if kind == "before":
        return ours(row, threads, args, args.before)
    if kind == "ours":  # with so many threads
        return ours(row, int(which), args)
    if kind == "row":  # another row of ours
        return ours(which, threads, args)
    if kind == "ipykernel":
        return notebook(row, threads, args, kind, args.after)
    return Contestant([args.python, os.path.join(HERE, peer + "_peer.py"), row,
                       str(threads)], threads)


def run_row(row, threads, args, rows):
    unit, _, peers, goal = ROWS[row]
    result = {"name": row, "threads": threads, "unit": unit, "ours": None, "peer": None,
              "peer_value": None, "ratio": None, "ratio_lo": None, "ratio_hi": None,
              "goal": goal, "dropped": 0}
    if args.against:
        peers, result["goal"] = ["before"], 1.03
    for peer in [p for p in peers if ":" in p or p in args.peers] or [None]:
        r = dict(result, peer=peer)
        if peer is None:
            r["ours"] = measure_alone(row, threads, args)
        else:
            mine, other = ours(row, threads, args), opponent(peer, row, threads, args)
            kept, r["dropped"] = compare(mine, other, args.rounds)
            mine.end()
            other.end()
            if len(kept) * 2 >= args.rounds:
                r["ours"] = statistics.median(a for a, _ in kept)
                r["peer_value"] = statistics.median(b for _, b in kept)
                ratios = [a / b for a, b in kept if b]  # ticks may be none
                if len(ratios) == len(kept):
                    r["ratio"] = statistics.median(ratios)
                    r["ratio_lo"], r["ratio_hi"] = bootstrap(ratios)
        rows.append(r)
        show(r)


def show(r):
    def number(x):
        return "-" if x is None else f"{x:.3g}"
    ratio = ("inconclusive" if r["peer"] and r["ours"] is None else "-" if r["ratio"] is None else
             f'{r["ratio"]:.2f} [{r["ratio_lo"]:.2f}, {r["ratio_hi"]:.2f}]')
    print(f'{r["name"]:22} T{r["threads"]}  ours {number(r["ours"]):>9} {r["unit"]:14} '
          f'{r["peer"] or "":12} {number(r["peer_value"]):>9}  ratio {ratio:24} '
          f'goal {r["goal"]}  dropped {r["dropped"]}', flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build")
    p.add_argument("--rows", default="")
    p.add_argument("--peers", default="")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--against", default="")
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    args.peers = [x for x in args.peers.split(",") if x]
    args.after = Build(args.build, ROOT)
    if args.against:
        args.peers, folder = ["before"], os.path.join(args.build, "bench")
        args.before = copied(os.path.abspath(args.against), os.path.join(folder, "before"))
        args.after = copied(args.build, os.path.join(folder, "after"))
        for program in ("null_run", "nothing", "checkpoint", "remote_channel"):
            shutil.copy(os.path.join(folder, program), args.after.folder + "/bench")
    wanted = args.rows.replace(",", " ").split() or (AGAINST if args.against else list(ROWS))
    unknown = [r for r in wanted if r not in ROWS]
    if unknown:
        sys.exit("no such row: " + " ".join(unknown))
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next((line.split(":")[1].strip() for line in f if "model name" in line), "?")
    rows = []
    for row in wanted:
        for threads in ROWS[row][1]:
            if threads <= len(os.sched_getaffinity(0)):
                run_row(row, threads, args, rows)
    machine = {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "date": time.strftime("%F")}
    with open(os.path.join(args.build, "bench.json"), "w", encoding="utf-8") as f:
        json.dump({"machine": machine, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
