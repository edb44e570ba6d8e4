#!/usr/bin/env python3
"""Tests of the notebook kernel; the last line counts them.

A test is a function test_* of a module here. It gets what its parameters name:
`client` and `kernel` are of one kernel that the module's tests share, `fresh`
makes kernels of its own. TIDE_SOAK=1 runs everything at full counts.

usage: run.py BUILD [MODULE | MODULE.TEST ...]
"""
import importlib
import inspect
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

NOT_TESTS = {"run", "kernel"}


def start_kernels(build):
    kernel = importlib.import_module("kernel")
    kernel.Kernel.build = build
    return kernel.Kernel


class Shared:
    """The kernel that a module's tests share, begun anew when it died."""

    def __init__(self, make):
        self.make, self.kernel = make, None

    def get(self):
        if self.kernel and not self.kernel.alive():
            self.end()
        if not self.kernel:
            self.kernel = self.make()
        return self.kernel

    def end(self):
        if self.kernel:
            self.kernel.stop()
        self.kernel = None


def run_one(test, shared, make):
    """Raises when it fails; what a kernel said comes with it."""
    names = inspect.signature(test).parameters
    made = []

    def fresh(*args, **kwargs):
        made.append(make(*args, **kwargs))
        return made[-1]

    args, client = {}, None
    try:
        if "fresh" in names:
            args["fresh"] = fresh
        if "kernel" in names or "client" in names:
            args["kernel"] = shared.get()
            made.append(args["kernel"])
        if "client" in names:
            client = args["client"] = args["kernel"].client()
        if "kernel" not in names:
            args.pop("kernel", None)
        test(**args)
        if shared.kernel and not shared.kernel.alive():
            raise AssertionError("the kernel died")
    except BaseException:
        for k in made:
            print(f"kernel said: {k.said()[-2000:]}")
        raise
    finally:
        if client:
            client.close()
        for k in made:
            if k is not shared.kernel:
                k.stop()


def main():
    build, only = sys.argv[1], sys.argv[2:]
    make = start_kernels(build)
    passed = failed = 0
    for file in sorted(os.listdir(HERE)):
        name, end = os.path.splitext(file)
        wanted = [o for o in only if o.split(".")[0] == name]
        if end != ".py" or name in NOT_TESTS or (only and not wanted):
            continue
        module, shared = importlib.import_module(name), Shared(make)
        for test_name, test in inspect.getmembers(module, inspect.isfunction):
            full = f"{name}.{test_name}"
            if not test_name.startswith("test_"):
                continue
            if only and not any(full == o or name == o for o in wanted):
                continue
            began = time.time()
            try:
                run_one(test, shared, make)
                passed += 1
                if time.time() - began > 0.5:
                    print(f"{full}: {time.time() - began:.1f} s", flush=True)
            except Exception:
                failed += 1
                shared.end()
                print(f"{full} failed:\n{traceback.format_exc()}", flush=True)
        shared.end()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
