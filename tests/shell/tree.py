"""tree.py - what the tests of the tree's structure share: the object files of a
build with the names they define and use, and circles in a graph."""
import glob
import os
import subprocess

FOLDERS = ("engine", "kernels", "lua", "repl", "jupyter")
PLUGIN = "kernels/cuda/"  # is built where CUDA is installed, in a folder of its own


def objects(build):
    """The product's object files whose source is still there, without .o."""
    found = []
    missing = [c for folder in FOLDERS
               for c in glob.glob(f"{folder}/**/*.c", recursive=True)
               if not c.startswith(PLUGIN)
               and not os.path.exists(f"{build}/{c[:-2]}.o")]
    if missing or not os.path.isdir("engine"):
        raise SystemExit(f"{build} is not whole, {missing[:3]} are not built: make all")
    for folder in FOLDERS:
        for path in glob.glob(f"{build}/{folder}/**/*.o", recursive=True):
            name = os.path.relpath(path, build)[:-2]
            if os.path.exists(name + ".c") or os.path.exists(
                    name.replace(".pb-c", "") + ".proto"):
                found.append(name)
    return sorted(found)


def symbols(build, names):
    """{object: names it defines}, {object: names it uses of others}."""
    defined, used = {n: {} for n in names}, {n: set() for n in names}
    out = subprocess.run(["nm", "-A", *(f"{build}/{n}.o" for n in names)],
                         capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, rest = line.split(":", 1)
        name, fields = os.path.relpath(path, build)[:-2], rest.split()
        if fields[0] in "Uw":
            used[name].add(fields[1])
        elif fields[1] in "TDBRV":
            defined[name][fields[2]] = fields[1]
    return defined, used


def circles(graph):
    """Tarjan: sets of two and more nodes that reach each other."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(graph):
        if v not in index:
            visit(v)
    return found


def report(checks):
    """Prints what each check found wrong, and the counts; the exit status."""
    for line in sum(checks, []):
        print(line)
    failed = sum(map(bool, checks))
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed
