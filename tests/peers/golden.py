#!/usr/bin/env python3
"""Golden vectors: every op's cases, computed by real TensorFlow.

    python tests/peers/golden.py [--check] [--ranks] [OP ...]

writes tests/golden/<Op>.pb (golden.proto) of every op that Tide has, from
tests/peers/cases, and tests/golden/ranks/<Op>.pb of those that ranks.py there
names, or with --check computes all again and compares. Needs
TensorFlow, protoc-c and build/tests/rows/rows, which lists the ops; the files
are in the tree because tests must not need any. A case runs as a graph of one
node, as Tide runs it: imported, fed, without any rewriting. What TensorFlow
refuses is printed. TensorFlow's own loops compute; for FusedBatchNormV3, whose
last result is of another shape in what users run, oneDNN's: set
TF_ENABLE_ONEDNN_OPTS=1.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2, tensor_pb2
from tensorflow.python.framework import kernels as tf_kernels
from tensorflow.python.framework import op_def_registry, tensor_util

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
sys.path.insert(0, str(HERE))
from cases import L, OPS, RANKS, Unset, Var, Zeros, source  # noqa: E402

v1 = tf.compat.v1
MAX_BYTES = 8192
FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]


def load_proto():
    """The messages of golden.proto, compiled into a temporary folder."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            ["protoc-c", f"--proto_path={GOLDEN}",
             f"--descriptor_set_out={out}/d", "golden.proto"], check=True)
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf import message_factory
        files = descriptor_pb2.FileDescriptorSet.FromString(
            pathlib.Path(out, "d").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for f in files.file:
            pool.Add(f)
        return message_factory.GetMessageClass(
            pool.FindMessageTypeByName("td.Golden"))


# ---- dtypes ------------------------------------------------------------------

def cpu_kernels(op):
    """[{attribute: set of dtypes}] of TensorFlow's CPU kernels for an op."""
    found = []
    for k in tf_kernels.get_registered_kernels_for_op(op).kernel:
        if k.device_type != "CPU" or k.label:
            continue
        found.append({
            c.name: {tf.as_dtype(t) for t in c.allowed_values.list.type}
            for c in k.constraint})
    return found


# Every dtype there are vectors of.
NUMBERS = [1, 2, 19, 14, 3, 9, 6, 5, 4, 17, 22, 23, 10, 8, 18, 7,
           11, 12, 13, 15, 16]


def allowed(op_def, name):
    """dtypes that the signature allows an attribute."""
    attr = next(a for a in op_def.attr if a.name == name)
    types = attr.allowed_values.list.type or NUMBERS
    return [tf.as_dtype(t) for t in types if t in NUMBERS]


class Types:
    """Which combinations of dtypes an op's CPU kernels take."""

    def __init__(self, op_def):
        self.op_def = op_def
        self.kernels = cpu_kernels(op_def.name)
        self.names = [a.name for a in op_def.attr if a.type == "type"]
        self.sets = {n: [t for t in allowed(op_def, n) if self.takes({n: t})]
                     for n in self.names}

    def takes(self, binding):
        return any(all(t in k.get(n, {t}) for n, t in binding.items())
                   for k in self.kernels)

    def base(self, pinned, want):
        """A binding with `want` for the first attribute that has it."""
        out = dict(pinned)
        for n in self.names:
            if n in out:
                continue
            default = self.default(n)
            choice = self.sets[n]
            for t in [want, default, tf.float32, tf.int32, *choice]:
                if t is not None and t in choice and self.takes({**out, n: t}):
                    out[n] = t
                    break
            if n in out and out[n] == want:
                want = None
        return out

    def default(self, name):
        attr = next(a for a in self.op_def.attr if a.name == name)
        has = attr.HasField("default_value")
        return tf.as_dtype(attr.default_value.type) if has else None

    def bindings(self, case, pinned):
        """The bindings that a case runs with."""
        if case.types == "sweep":
            return self.sweep(pinned)
        has64 = any(tf.float64 in s for s in self.sets.values())
        want = [tf.float64 if has64 and not case.fails else tf.float32]
        if case.types:
            want = [tf.as_dtype(t) for t in case.types.split()]
        out = []
        for t in want:
            b = self.base(pinned, t)
            if b not in out and (case.types is None or t in b.values()):
                out.append(b)
        return out

    def sweep(self, pinned):
        base = self.base(pinned, tf.float32)
        out = [base]
        for n in self.names:
            if n in pinned:
                continue
            for t in self.sets[n]:
                b = {**base, n: t}
                if b not in out and self.takes(b):
                    out.append(b)
        return out


# ---- values ------------------------------------------------------------------

def text(v):
    return v if isinstance(v, bytes) else b"s%g" % v


def value(x, dtype):
    """A nested list as numpy; what is numpy already keeps its dtype."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, Zeros):
        x = np.zeros(x.shape)
    if dtype == tf.string:
        flat = np.asarray(x, dtype=object)
        return np.vectorize(text, otypes=[object])(flat) if flat.size else flat
    a = np.asarray(x, dtype=complex if np.iscomplexobj(x) else float)
    if dtype.is_complex:
        if not np.iscomplexobj(a):
            a = a + 0.5j * a.ravel()[::-1].reshape(a.shape)
        return a.astype(dtype.as_numpy_dtype)
    if dtype.is_quantized:
        plain = dtype.as_numpy_dtype[0]
        low = np.iinfo(plain).min
        a = np.abs(a) if low == 0 else a
        return a.astype(plain).view(dtype.as_numpy_dtype)
    if dtype.is_unsigned:
        a = np.abs(a)
    return a.astype(dtype.as_numpy_dtype) if dtype != tf.bool else a != 0


def dtype_of(a):
    return tf.string if a.dtype == object else tf.as_dtype(a.dtype)


def tensor_bytes(a, dtype=None):
    """TensorProto bytes, the same for the same value. `dtype` where NumPy's
    does not tell: a quantized result is plain integers."""
    dtype = dtype or dtype_of(a)
    if dtype == tf.string:
        a = np.asarray(a, dtype=object)
    p = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    p.tensor_shape.SetInParent()
    for n in a.shape:
        p.tensor_shape.dim.add(size=n)
    if dtype == tf.string:
        p.string_val.extend(a.ravel().tolist())
    elif dtype == tf.bool:  # its bytes are not always 0 or 1
        p.tensor_content = (np.ascontiguousarray(a).view(np.uint8) != 0) \
            .astype(np.uint8).tobytes()
    else:
        p.tensor_content = np.ascontiguousarray(a).tobytes()
    return p.SerializeToString(deterministic=True)


def bytes_of(y, dtype):
    """Of a fetched value; None (dead, not initialised) gives none. NumPy's own
    strings would lose zero bytes at their ends."""
    kind = object if dtype == tf.string else None
    return b"" if y is None else tensor_bytes(np.asarray(y, dtype=kind), dtype)


def tensor_value(data):
    return tensor_util.MakeNdarray(tensor_pb2.TensorProto.FromString(data))


def weights(shape, o, dtype):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    w = ((7 * i + 3 * o) % 11 - 5.5) / 8
    return w.reshape(shape).astype(dtype.as_numpy_dtype)


# ---- one case ----------------------------------------------------------------

def set_attr(node, op_def, name, v):
    """Attribute of a NodeDef from a Python value."""
    kind = next(a for a in op_def.attr if a.name == name).type
    at = node.attr[name]
    put = {
        "int": lambda to, x: setattr(to, "i", x),
        "float": lambda to, x: setattr(to, "f", x),
        "bool": lambda to, x: setattr(to, "b", x),
        "string": lambda to, x: setattr(
            to, "s", x.encode() if isinstance(x, str) else x),
        "type": lambda to, x: setattr(
            to, "type", tf.as_dtype(x).as_datatype_enum),
        "shape": lambda to, x: to.shape.CopyFrom(tf.TensorShape(x).as_proto()),
        "tensor": lambda to, x: to.tensor.ParseFromString(tensor_bytes(x)),
    }
    if not kind.startswith("list("):
        put[kind](at, v)
        return
    kind = kind[5:-1]
    at.list.SetInParent()
    for x in v:
        if kind == "type":
            at.list.type.append(tf.as_dtype(x).as_datatype_enum)
        elif kind == "shape":
            at.list.shape.append(tf.TensorShape(x).as_proto())
        elif kind == "tensor":
            at.list.tensor.add().ParseFromString(tensor_bytes(x))
        elif kind == "string":
            at.list.s.append(x.encode())
        else:
            getattr(at.list, kind[0]).append(x)


class Run:
    """A case with its dtypes chosen: the node and the values of its inputs."""

    def __init__(self, op_def, case, binding):
        self.op_def, self.case = op_def, case
        self.binding = dict(binding)
        self.inputs = []  # numpy, Var or Unset, flattened
        attrs = dict(case.attrs)
        for arg, x in zip(op_def.input_arg, case.inputs, strict=True):
            self.add_input(arg, x, attrs)
        for n, t in self.binding.items():
            attrs.setdefault(n, t)
        self.node = node_def_pb2.NodeDef(name="op", op=op_def.name)
        for i in range(len(self.inputs)):
            self.node.input.append(f"in{i}")
        for name, v in attrs.items():
            set_attr(self.node, op_def, name, v)
        for a in op_def.attr:  # what is the default is left out
            if a.HasField("default_value") and a.name in self.node.attr and \
                    self.node.attr[a.name] == a.default_value:
                del self.node.attr[a.name]

    def arg_type(self, arg):
        if arg.type_attr:
            return self.binding.get(arg.type_attr)
        return tf.as_dtype(arg.type) if arg.type else None

    def add_input(self, arg, x, attrs):
        if isinstance(x, (Var, Unset)):
            t = tf.as_dtype(x.dtype) if x.dtype else self.binding["dtype" if
                "dtype" in self.binding else "T"]
            v = None if isinstance(x, Unset) else value(x.value, t)
            self.inputs.append((t, v))
        elif isinstance(x, L):
            all_ = [value(e, self.arg_type(arg)) for e in x.items]
            if arg.number_attr:
                attrs[arg.number_attr] = len(all_)
            if arg.type_list_attr:
                attrs[arg.type_list_attr] = [dtype_of(a) for a in all_]
            elif arg.type_attr and all_:
                self.binding[arg.type_attr] = dtype_of(all_[0])
            self.inputs.extend(all_)
        else:
            a = value(x, self.arg_type(arg))
            if arg.type_attr:
                self.binding[arg.type_attr] = dtype_of(a)
            self.inputs.append(a)

    def graph_bytes(self):
        g = graph_pb2.GraphDef()
        g.node.append(self.node)
        return g.SerializeToString(deterministic=True)


def session(threads=1):
    """Functions in functions wait for threads of TensorFlow's: with few, for
    ever."""
    if os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1":
        return v1.Session()
    options = v1.ConfigProto(intra_op_parallelism_threads=1,
                             inter_op_parallelism_threads=threads,
                             operation_timeout_in_ms=60000)
    rewrite = options.graph_options.rewrite_options
    rewrite.disable_meta_optimizer = True
    options.graph_options.optimizer_options.opt_level = -1
    return v1.Session(config=options)


class Graph:
    """A run built in TensorFlow."""

    def __init__(self, run):
        self.feeds, self.vars, self.inits, self.ends = {}, {}, [], []
        for i, x in enumerate(run.inputs):
            if isinstance(x, tuple):
                self.ends.append(self.variable(i, *x))
            elif dtype_of(x) in FLOATS:
                p = v1.placeholder(dtype_of(x), x.shape)
                self.feeds[p] = x
                self.ends.append(p)
            else:  # gradients look at sizes and axes
                self.ends.append(tf.constant(x, dtype_of(x), x.shape))
        g = graph_pb2.GraphDef()
        g.node.append(run.node)
        removed = run.op_def.deprecation.version
        g.versions.producer = removed - 1 if removed else \
            tf.version.GRAPH_DEF_VERSION
        ends = {f"in{i}:0": e for i, e in enumerate(self.ends)}
        self.op, = tf.import_graph_def(g, ends, ["op"], name="")

    def variable(self, i, dtype, v):
        shape = None if v is None else v.shape
        h = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape,
                                   shared_name=f"v{i}")
        self.vars[i] = (h, dtype, v)
        if v is not None:
            p = v1.placeholder(dtype, v.shape)
            self.feeds[p] = v
            self.inits.append(tf.raw_ops.AssignVariableOp(resource=h, value=p))
        return h

    def outputs(self, sess):
        wanted = list(self.op.outputs)
        if not wanted:
            sess.run(self.op, self.feeds)
            return []
        try:
            return sess.run(wanted, self.feeds)
        except tf.errors.InvalidArgumentError as e:
            if "does not have" not in str(e) and "dead" not in str(e).lower():
                raise
        return [self.alive(sess, t) for t in wanted]

    def alive(self, sess, t):
        try:
            return sess.run(t, self.feeds)
        except tf.errors.InvalidArgumentError:
            return None

    def after(self, sess, i):
        h, dtype, _ = self.vars[i]
        try:
            return sess.run(tf.raw_ops.ReadVariableOp(resource=h, dtype=dtype))
        except tf.errors.FailedPreconditionError:
            return None
        except tf.errors.NotFoundError:
            return None

    def gradients(self, sess, outputs):
        """Bytes an input, empty where there is none; [] when nowhere."""
        ys, ws = [], []
        for o, (t, y) in enumerate(zip(self.op.outputs, outputs)):
            if t.dtype in FLOATS and y is not None:
                ys.append(t)
                ws.append(tf.constant(weights(y.shape, o, t.dtype)))
        xs = [e for e in self.ends if e.dtype in FLOATS]
        if not ys or not xs:
            return []
        try:
            found = v1.gradients(ys, xs, ws)
            by = {id(x): self.fetched(sess, g) for x, g in zip(xs, found)}
        except LookupError:  # there is none
            return []
        except (TypeError, ValueError, tf.errors.OpError) as e:
            print(f"no gradient: {self.op.type}: {reason(e)}")
            return []
        return [by.get(id(e), b"") for e in self.ends] if any(by.values()) \
            else []

    def fetched(self, sess, g):
        if g is None:
            return b""
        g = tf.convert_to_tensor(g)
        return bytes_of(sess.run(g, self.feeds), g.dtype)


def run_case(run, want_grad, out):
    """Fills a GoldenCase."""
    out.graph = run.graph_bytes()
    for x in run.inputs:
        out.input.append(b"" if isinstance(x, tuple) else tensor_bytes(x))
    for i, x in enumerate(run.inputs):
        if isinstance(x, tuple):
            out.variable.add(
                input=i, dtype=x[0].as_datatype_enum,
                before=b"" if x[1] is None else tensor_bytes(x[1]))
    with tf.Graph().as_default():
        g = Graph(run)
        with session() as sess:
            sess.run(g.inits, g.feeds)
            got = g.outputs(sess)
            for t, y in zip(g.op.outputs, got):
                out.output.append(bytes_of(y, t.dtype))
            if "seed2" in run.case.attrs:
                for t, y in zip(g.op.outputs, g.outputs(sess)):
                    out.again.append(bytes_of(y, t.dtype))
            for v in out.variable:
                v.after = bytes_of(g.after(sess, v.input), g.vars[v.input][1])
            if want_grad:
                out.grad.extend(g.gradients(sess, got))


def run_bad(run, out):
    try:
        run_case(run, False, out)
    except (ValueError, tf.errors.OpError):
        pass
    else:
        print(f"TensorFlow takes the bad case: {describe(run)}")
    del out.output[:], out.again[:]
    for v in out.variable:
        v.after = b""
    out.fails = True
    out.says = run.case.says


# ---- one op ------------------------------------------------------------------

def wants_grad(run, types):
    """float64, or float32 where there is no float64."""
    used = [t for t in run.binding.values() if t in FLOATS]
    fixed = [tf.as_dtype(a.type) for a in run.op_def.input_arg
             if a.type and tf.as_dtype(a.type) in FLOATS]
    has64 = any(tf.float64 in s for s in types.sets.values())
    want = tf.float64 if has64 else tf.float32
    return bool(used or fixed) and all(t == want for t in used)


def describe(run):
    types = " ".join(f"{n}={t.name}" for n, t in run.binding.items())
    return f"{run.op_def.name} {types} {run.case.inputs} {run.case.attrs}"


def reason(e):
    """The line of an error that says what is wrong."""
    lines = [s.strip() for s in str(e).splitlines() if s.strip()]
    ends = [i for i, s in enumerate(lines) if s.startswith("[[{{node")]
    return lines[ends[0] - 1] if ends and ends[0] else lines[0]


def fill_row(row, out):
    """GoldenRow from what op() was told."""
    names = ("half", "bfloat16", "float32", "float64", "complexes")
    for name, units in zip(names, row.near, strict=True):
        setattr(out, name, units)
    for name in ("least", "scaled", "zeros", "each", "dynamic", "because"):
        setattr(out, name, getattr(row, name))
    for attr, types in row.missing.items():
        numbers = [tf.as_dtype(t).as_datatype_enum for t in types.split()]
        out.missing.add(attr=attr, dtype=numbers)


def make(message, op, row, verbose):
    """The file of an op's cases: those of its row or those by rank."""
    op_def = op_def_registry.get(op)
    if op_def is None:
        sys.exit(f"{op}: not in this TensorFlow")
    types = Types(op_def)
    golden = message(tensorflow=tf.__version__, script=script_hash(row))
    for n in types.names:
        numbers = sorted(t.as_datatype_enum for t in types.sets[n])
        golden.types.add(attr=n, dtype=numbers)
    fill_row(OPS[op], golden.row)
    for case in row.cases:
        pinned = {n: tf.as_dtype(v) for n, v in case.attrs.items()
                  if n in types.names}
        for binding in types.bindings(case, pinned):
            run = Run(op_def, case, binding)
            if case.fails:
                run_bad(run, golden.cases.add())
                break  # one dtype is enough
            one = type(golden.cases.add())()
            del golden.cases[-1]
            try:
                run_case(run, wants_grad(run, types) and case.grad, one)
            except (ValueError, tf.errors.OpError) as e:
                print(f"refused: {describe(run)}: {reason(e)}")
                continue
            golden.cases.append(one)
            if verbose:
                print(f"{describe(run)} -> "
                      f"{[tensor_value(y) for y in one.output if y]} "
                      f"{[tensor_value(y) for y in one.grad if y]}")
    return golden


def script_hash(row):
    text_ = pathlib.Path(__file__).read_bytes() + source(row).encode()
    return hashlib.sha256(text_).hexdigest()


# ---- comparing ---------------------------------------------------------------

EPS = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23,
       "float64": 2**-52, "complex64": 2**-23, "complex128": 2**-52}


def near(a, b):
    """The same tensor but for rounding: another processor may differ there."""
    if a == b:
        return True
    if not a or not b:
        return False
    x, y = tensor_value(a), tensor_value(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.name not in EPS:
        return bool(np.all(x == y))
    eps = 64 * EPS[x.dtype.name]
    return np.allclose(x.astype(complex), y.astype(complex), eps, eps,
                       equal_nan=True)


def tensors(case):
    """All that TensorFlow computed."""
    return [*case.output, *case.again, *case.grad,
            *(v.after for v in case.variable)]


def asked(case):
    return (case.graph, list(case.input), case.fails, case.says,
            len(tensors(case)))


def same(a, b):
    if len(a.cases) != len(b.cases) or a.types != b.types or a.row != b.row:
        return False
    return all(asked(x) == asked(y) and all(map(near, tensors(x), tensors(y)))
               for x, y in zip(a.cases, b.cases))


def registered(build):
    """The ops that Tide has and that have cases."""
    rows = pathlib.Path(build, "tests/rows/rows")
    out = subprocess.run([rows, "--list"], check=True, stdout=subprocess.PIPE,
                         text=True).stdout.split()
    for op in out:
        if op not in OPS:
            print(f"{op}: no cases")
    return [op for op in out if op in OPS]


def write(message, path, golden, check):
    """Writes a file or compares it; 1 when something is wrong."""
    data = golden.SerializeToString(deterministic=True)
    if len(data) > MAX_BYTES:
        print(f"{path}: {len(data)} bytes, more than {MAX_BYTES}")
        return 1
    if not check:
        path.write_bytes(data)
    elif not path.exists() or not same(
            message.FromString(path.read_bytes()), golden):
        print(f"{path} differs")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="compute again and compare, write nothing")
    parser.add_argument("--verbose", action="store_true",
                        help="print what was computed")
    parser.add_argument("--ranks", action="store_true",
                        help="only the files of ranks/")
    parser.add_argument("--build", default="build", help="where the tests are")
    parser.add_argument("ops", nargs="*", help="only these; default: all")
    args = parser.parse_args()
    message = load_proto()
    wrong = 0
    ops = args.ops or registered(args.build)
    for op in ops:
        for rows, where in (OPS, GOLDEN), (RANKS, GOLDEN / "ranks"):
            if op in rows and (rows is RANKS or not args.ranks):
                golden = make(message, op, rows[op], args.verbose)
                wrong += write(message, where / f"{op}.pb", golden,
                               args.check)
    print(f"{len(ops)} ops, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
