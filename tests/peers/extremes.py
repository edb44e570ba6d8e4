#!/usr/bin/env python3
"""What TensorFlow says of operands that are empty, of size 1 or of another rank.

    python tests/peers/extremes.py [OP ...]

takes the cases of tests/golden/<Op>.pb, changes them, asks real TensorFlow and
writes tests/golden/extremes/<Op>.txt, a line each, which tests/rows/extremes.c
reads:

    2 in0=0x3 in1=. in2[0]=-1 padding=VALID -> 0x1:0 .:2.5

is case 2 with input 0 refilled (its elements, again and again) in the shape
{0, 3}, input 1 as a scalar, element 0 of input 2 set to -1 and an attribute set.
The answer is each output's shape and the sum of element i times
((7 i) mod 11 - 5.5) / 8, or a code; then, after "|", the variables'. It is the
kernel's, which knew no shapes; "!" says that the shape function refuses what the
kernel takes. Left out is what makes TensorFlow abort or answer with what was in
memory.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import itertools
import math
import os
import re
import resource
import sys

import golden
from golden import GOLDEN, np, tf, v1

MOST = 32  # lines of an op
CASES = 4  # of an op
FAR = 70   # a value out of range of whatever a case has


# ---- what is changed ---------------------------------------------------------

def spelled(shape):
    return "x".join(map(str, shape)) or "."


class Given:
    """A golden case: its node and its operands."""

    def __init__(self, index, case):
        self.index, self.case = index, case
        self.node = v1.GraphDef.FromString(case.graph).node[0]
        variables = {v.input: v for v in case.variable}
        self.values, self.dtypes = [], []
        for i, data in enumerate(case.input):
            data = data or (variables[i].before if i in variables else b"")
            v = golden.tensor_value(data) if data else None
            t = tf.as_dtype(golden.tensor_pb2.TensorProto.FromString(data)
                            .dtype) if data else tf.float32
            if i in variables:
                t = tf.as_dtype(variables[i].dtype)
            self.values.append(v)
            self.dtypes.append(t)
        self.variables = set(variables)

    def key(self):
        """Cases that differ by dtype only are one."""
        node = v1.NodeDef()
        node.CopyFrom(self.node)
        for name in [n for n, a in node.attr.items() if a.HasField("type")]:
            del node.attr[name]
        return (node.SerializeToString(deterministic=True),
                tuple(None if v is None else v.shape for v in self.values))

    def shaped(self):
        return [(i, v.shape) for i, v in enumerate(self.values)
                if v is not None]

    def small_ints(self):
        return [(i, v) for i, v in enumerate(self.values)
                if v is not None and v.dtype in (np.int32, np.int64)
                and v.ndim < 2 and 0 < v.size < 7 and i not in self.variables]


def every_axis(given):
    """Every axis of a size at once, and what the integers say of it."""
    sizes = sorted({n for _, s in given.shaped() for n in s if n})
    for d, to in itertools.product(sizes, (0, 1)):
        if d == to:
            continue
        change = {i: tuple(to if n == d else n for n in s)
                  for i, s in given.shaped() if d in s}
        yield change, {}
        told = {(i, k): to for i, v in given.small_ints() if i not in change
                for k, n in enumerate(v.ravel()) if n == d}
        if told:
            yield change, told


def one_axis(given):
    for i, s in given.shaped():
        for k, to in itertools.product(range(len(s)), (0, 1)):
            if s[k] != to:
                yield {i: s[:k] + (to,) + s[k + 1:]}, {}


def first_axes(given):
    for to in (0, 1):
        yield {i: (to,) + s[1:] for i, s in given.shaped()
               if s and s[0] != to}, {}


def other_rank(given):
    """One operand at a time, and all small integers at once."""
    for to in ((), (1,), (1, 1)):
        yield {i: to for i, v in given.small_ints()
               if v.shape != to and math.prod(to) <= v.size}, {}
    for i, s in given.shaped():
        if not s:
            shapes = [(1,), (1, 1), (0,)]
        elif len(s) == 1:
            shapes = [(), (1,) + s, (2,)]
        else:
            shapes = [(1,) + s, s[1:], ()]
        for to in shapes:
            if to != s:
                yield {i: to}, {}


def other_number(given):
    for i, v in given.small_ints():
        for k, to in itertools.product(range(min(v.size, 2)), (-1, 0, 1, FAR)):
            if v.ravel()[k] != to:
                yield {}, {(i, k): to}


def valid(given):
    return "padding" in given.node.attr and \
        given.node.attr["padding"].s == b"SAME"


def changes(given):
    """Texts, the telling ones first."""
    kinds = [every_axis, one_axis, other_rank, other_number, first_axes]
    if valid(given):
        kinds[1:1] = [every_axis, one_axis]
    turns, seen = [], set()
    for n, kind in enumerate(kinds):
        tail = " padding=VALID" if valid(given) and n in (1, 2) else ""
        turns.append([x + tail for c in kind(given)
                      if (x := text_of(given, *c))])
    for row in itertools.zip_longest(*turns):
        for text in row:
            if text and text not in seen:
                seen.add(text)
                yield text


def text_of(given, shapes, numbers):
    words = [f"in{i}={spelled(s)}" for i, s in sorted(shapes.items())
             if s != given.values[i].shape]
    words += [f"in{i}[{k}]={n}" for (i, k), n in sorted(numbers.items())]
    return " ".join([str(given.index), *words]) if words else ""


def questions(message, op):
    """Lines without answers."""
    data = (GOLDEN / f"{op}.pb").read_bytes()
    found, seen = [], set()
    for i, case in enumerate(message.FromString(data).cases):
        if case.fails:
            continue
        given = Given(i, case)
        if given.key() not in seen and len(found) < CASES:
            seen.add(given.key())
            found.append(list(changes(given)))
    lines = [x for row in itertools.zip_longest(*found) for x in row if x]
    return lines[:MOST]


# ---- asking ------------------------------------------------------------------

def refilled(v, shape):
    n = math.prod(shape)
    if v.size == 0:
        return np.zeros(shape, v.dtype) if v.dtype != object else \
            np.full(shape, b"s", object)
    flat = v.ravel()
    return flat[np.arange(n) % v.size].reshape(shape)


def changed(given, words):
    """The operands and the node that a line asks for."""
    values = [None if v is None else v.copy() for v in given.values]
    node = v1.NodeDef()
    node.CopyFrom(given.node)
    for word in words:
        what, to = word.split("=")
        if what == "padding":
            node.attr[what].s = to.encode()
        elif what.endswith("]"):
            i, k = what[2:-1].split("[")
            values[int(i)].reshape(-1)[int(k)] = int(to)
        else:
            shape = () if to == "." else tuple(map(int, to.split("x")))
            values[int(what[2:])] = refilled(values[int(what[2:])], shape)
    return node, values


def graph(given, node, values, known):
    """Feeds, initializers, handles and the op."""
    feeds, inits, handles, ends = {}, [], {}, {}
    for i, (t, v) in enumerate(zip(given.dtypes, values)):
        shape = v.shape if known and v is not None else None
        if i in given.variables:
            h = tf.raw_ops.VarHandleOp(dtype=t, shape=shape,
                                       shared_name=f"v{i}")
            handles[i], ends[f"in{i}:0"] = h, h
            if v is not None:
                inits.append(tf.raw_ops.AssignVariableOp(
                    resource=h, value=tf.constant(v, t, v.shape)))
        elif known:
            ends[f"in{i}:0"] = tf.constant(v, t, v.shape)
        else:
            p = ends[f"in{i}:0"] = v1.placeholder(t, shape)
            feeds[p] = v
    g = v1.GraphDef()
    g.node.append(node)
    removed = golden.op_def_registry.get(node.op).deprecation.version
    g.versions.producer = removed - 1 if removed else \
        tf.version.GRAPH_DEF_VERSION
    op, = tf.import_graph_def(g, ends, ["op"], name="")
    return feeds, inits, handles, op


def told(y):
    """A tensor as its shape and a sum."""
    if y is None:
        return "-"
    y = np.asarray(y, object if isinstance(y, bytes) else None)
    shape = spelled(y.shape)
    if y.dtype == object:
        parts = [float(b) for s in y.ravel() for b in [len(s), *s]]
    elif y.dtype.names:  # quantized
        parts = y.view(y.dtype[0]).astype(float).ravel()
    elif y.dtype.kind == "c":
        parts = np.stack([y.real, y.imag], -1).ravel().astype(float)
    else:
        parts = y.astype(float).ravel()
    total = 0.0
    for i, x in enumerate(parts):
        x = 1000.25 if math.isnan(x) else \
            math.copysign(2000.5, x) if math.isinf(x) else float(x)
        total += x * ((7 * i % 11) - 5.5) / 8
    return f"{shape}:{total:.8g}"


CODES = ("ok cancelled unknown invalid_argument deadline_exceeded not_found "
         "already_exists permission_denied resource_exhausted "
         "failed_precondition aborted out_of_range unimplemented internal "
         "unavailable data_loss unauthenticated").split()


def fetched(sess, op, feeds):
    wanted = list(op.outputs)
    if not wanted:
        sess.run(op, feeds)
        return []
    try:
        return sess.run(wanted, feeds)
    except tf.errors.InvalidArgumentError as e:
        if "Retval" not in str(e) or "does not have value" not in str(e):
            raise
    out = []
    for t in wanted:
        try:
            out.append(sess.run(t, feeds))
        except tf.errors.InvalidArgumentError:
            out.append(None)
    return out


def after(sess, h, dtype):
    try:
        return sess.run(tf.raw_ops.ReadVariableOp(resource=h, dtype=dtype))
    except tf.errors.OpError:
        return None


def ran(given, node, values, known=False):
    """The kernel's answer, which a few shape functions do not let it give
    without knowing the operands."""
    with tf.Graph().as_default(), golden.session() as sess:
        try:
            feeds, inits, handles, op = graph(given, node, values, known)
            sess.run(inits)
            out = [told(y) for y in fetched(sess, op, feeds)]
            late = [told(after(sess, h, given.dtypes[i]))
                    for i, h in sorted(handles.items())]
        except ValueError:
            return "invalid_argument" if known else \
                ran(given, node, values, True)
        except tf.errors.OpError as e:
            return CODES[e.error_code]
    return " ".join([*(out or ["ok"]), *(["|", *late] if late else [])])


def inferred(given, node, values):
    """Does the shape function take it?"""
    with tf.Graph().as_default():
        try:
            graph(given, node, values, True)
        except (ValueError, tf.errors.OpError):
            return False
    return True


def perturb(byte):
    """Fills what malloc gives: some kernels leave results as memory was."""
    M_PERTURB = -6
    ctypes.CDLL(None).mallopt(M_PERTURB, byte)


def answer(given, line):
    node, values = changed(given, line.split()[1:])
    perturb(0x11)
    said = ran(given, node, values)
    perturb(0xee)
    if said != ran(given, node, values):
        return "unsure"
    if said not in CODES and not inferred(given, node, values):
        said = "! " + said
    return said


# ---- processes that may abort ------------------------------------------------

def answers(message, op, lines):
    """Yields line and answer, None where TensorFlow ended the process. Each
    process is forked from this one, which never ran a session. After a few of
    these no more empty operands are tried: to end one takes seconds."""
    aborts = 0
    while lines:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            child_main(message, op, lines, theirs)
        os.close(theirs)
        with os.fdopen(ours) as said:
            got = said.read().splitlines()
        os.waitpid(child, 0)
        yield from zip(lines, got)
        if len(got) < len(lines):
            yield lines[len(got)], None
            aborts += 1
        lines = lines[len(got) + 1:]
        if aborts == 3:
            lines = [x for x in lines if not re.search(r"[=x]0\b", x)]


def child_main(message, op, lines, to):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        reply(message, op, lines, to)
    except BaseException as e:  # what is no answer of TensorFlow's
        os.write(quiet, f"{op}: {e!r}\n".encode())
    finally:
        os._exit(0)


def reply(message, op, lines, to):
    """A line each."""
    cases = message.FromString((GOLDEN / f"{op}.pb").read_bytes()).cases
    given = {}
    for line in lines:
        i = int(line.split()[0])
        if i not in given:
            given[i] = Given(i, cases[i])
        os.write(to, (answer(given[i], line) + "\n").encode())


def make(message, op):
    """Writes an op's file; how many lines, and how many aborted."""
    said = list(answers(message, op, questions(message, op)))
    out = [f"{line} -> {x}\n" for line, x in said if x and x != "unsure"]
    aborts = [line for line, x in said if not x]
    if aborts:
        print(f"{op}: TensorFlow aborts {len(aborts)} times, as in "
              f"{aborts[0]}", flush=True)
    if out:
        (GOLDEN / "extremes" / f"{op}.txt").write_text("".join(out))
    return len(out), len(aborts)


def main():
    message = golden.load_proto()
    ops = sys.argv[1:] or sorted(p.stem for p in GOLDEN.glob("*.pb"))
    (GOLDEN / "extremes").mkdir(exist_ok=True)
    made = [make(message, op) for op in ops]
    print(f"{len(ops)} ops, {sum(n for n, _ in made)} lines, "
          f"{sum(n for _, n in made)} times aborted")


if __name__ == "__main__":
    main()
