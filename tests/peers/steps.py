#!/usr/bin/env python3
"""Golden training steps: the nets of tests/lua/shared/nets.lua in TensorFlow.

    python tests/peers/steps.py [NET ...]

imports each net's GraphDef into real TensorFlow with the same weights and
inputs, and writes tests/golden/steps/NAME.npz: the loss, TensorFlow's own
gradients (tf.gradients over the imported graph, by its own rules) and the
weights after TensorFlow ran the training op. Tide's gradients, which are in the
graph too, are compared here as well, with TensorFlow's kernels under both.
Where the graph has a loop, of which TensorFlow takes no gradient once it is
imported, they are what is kept; that is said.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests/golden/steps"
TIDE = ROOT / "build/tide"


def digest(x):
    """Sum, norm and 64 samples of an array."""
    flat = np.asarray(x, np.float64).reshape(-1)
    places = np.arange(64) * flat.size // 64
    return np.concatenate([[flat.sum(), np.sqrt((flat ** 2).sum())],
                           flat[places]])


def short(rows):
    """float32 rounded to 17 bits after the point: a fifth less to keep."""
    bits = np.array(rows, np.float32).view(np.uint32)
    return ((bits + 32) & np.uint32(0xFFFFFFC0)).view(np.float32)


def dense(g):
    """A gradient as a tensor."""
    return tf.convert_to_tensor(g)


def same(a, b, what):
    room = 2e-4 * max(np.abs(b).max(), 1e-6)
    worst = np.abs(a - b).max()
    if not worst <= room:
        sys.exit(f"{what}: Tide's gradient and TensorFlow's are {worst} apart")


def own_gradients(g, net, loss):
    """TensorFlow's gradients, or None where it has none of a loop."""
    handles = {v["name"]: v["handle"] for v in net["variables"]}
    xs = [g.get_tensor_by_name(handles[name]) for name in net["trainable"]]
    if net["loops"]:
        return None
    return [dense(y) for y in tf.gradients(loss, xs)]


def run(name):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([TIDE, "tests/peers/step.lua", name, folder], check=True,
                       cwd=ROOT)
        net = json.loads(pathlib.Path(folder, "net.json").read_text())
        numbers = dict(np.load(pathlib.Path(folder, "numbers.npz")))
        graph_def = v1.GraphDef.FromString(
            pathlib.Path(folder, "graph.pb").read_bytes())
    with tf.Graph().as_default() as g, v1.Session(graph=g) as sess:
        for node in graph_def.node:
            node.device = ""
        tf.import_graph_def(graph_def, name="")
        loss = g.get_tensor_by_name(net["loss"])
        ours = [g.get_tensor_by_name(x) for x in net["gradients"]]
        theirs = own_gradients(g, net, loss)
        weights = {v["initial"]: numbers["weight|" + v["name"]]
                   for v in net["variables"]
                   if "weight|" + v["name"] in numbers}
        sess.run([g.get_operation_by_name(v["initializer"])
                  for v in net["variables"]], weights)
        feeds = {key[5:]: x for key, x in numbers.items()
                 if key.startswith("feed|")}
        value, grads = sess.run([loss, theirs or ours], feeds)
        if theirs:
            for n, a, b in zip(net["trainable"], sess.run(ours, feeds), grads):
                same(a, b, f"{name}: {n}")
        sess.run(g.get_operation_by_name(net["train"]), feeds)
        snapshots = {v["name"]: v["snapshot"] for v in net["variables"]}
        after = sess.run([snapshots[n] for n in net["kept"]])
    shapes = np.full((len(after), 8), -1, np.int64)
    for row, x in zip(shapes, after):
        row[:x.ndim] = x.shape
    GOLDEN.mkdir(exist_ok=True)
    np.savez_compressed(
        GOLDEN / f"{name}.npz", loss=np.float64(value), shapes=shapes,
        grad=short([digest(x) for x in grads]),
        after=short([digest(x) for x in after]))
    print(f"{name}: loss {value:.6f}, {len(grads)} variables, gradients by "
          + ("TensorFlow" if theirs else "Tide's rules: the graph has a loop"))


def main():
    names = sys.argv[1:] or subprocess.run(
        [TIDE, "tests/peers/step.lua", "--list"], check=True, cwd=ROOT,
        capture_output=True, text=True).stdout.split()
    for name in names:
        run(name)


main()
