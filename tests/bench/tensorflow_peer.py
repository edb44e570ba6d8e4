"""TensorFlow's side: graph mode, callables, no graph rewriting on null graphs."""
import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

import models
import peer
import tensorflow_models

ROW, THREADS = peer.arguments()
NODES = 10000
tf.disable_eager_execution()
tf.disable_control_flow_v2()


def session(rewrite=True):
    config = tf.ConfigProto(intra_op_parallelism_threads=THREADS,
                            inter_op_parallelism_threads=THREADS)
    if not rewrite:
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def dispatch(build):
    x = tf.placeholder(tf.float32, [])
    last = tf.group(*build(x))
    step = session(False).make_callable(last, feed_list=[x])
    one = np.float32(1)
    return lambda: step(one), NODES


def chain(x, n):
    for _ in range(n):
        x = tf.identity(x)
    return x


def layered(x):
    layer = [x] * 100
    for _ in range(100):
        layer = [layer[i] + layer[(i + 1) % 100] for i in range(100)]
    return layer


def while_loop():
    n = 10000
    i = tf.while_loop(lambda i: tf.less(i, n), lambda i: i + 1, [tf.constant(0)])
    step = session().make_callable(i)
    return step, n


def while_grad():
    n = 1000
    x = tf.placeholder(tf.float32, [8, 64])
    w = tf.placeholder(tf.float32, [64, 64])
    _, h = tf.while_loop(lambda i, h: tf.less(i, n),
                         lambda i, h: [i + 1, tf.matmul(h, w)],
                         [tf.constant(0), x])
    step = session().make_callable([h, *tf.gradients(h, [x, w])],
                                   feed_list=[x, w])
    a = np.ones([8, 64], np.float32)
    b = (np.eye(64) * 0.99).astype(np.float32)
    return lambda: step(a, b), n


def mlp_step():
    x = tf.placeholder(tf.float32, [100, 784])
    y = tf.placeholder(tf.int64, [100])
    w1 = tf.Variable(tf.random.normal([784, 100], stddev=0.05))
    b1 = tf.Variable(tf.zeros([100]))
    w2 = tf.Variable(tf.random.normal([100, 10], stddev=0.05))
    b2 = tf.Variable(tf.zeros([10]))
    h = tf.nn.relu(tf.matmul(x, w1) + b1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=tf.matmul(h, w2) + b2))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    s = session()
    s.run(tf.global_variables_initializer())
    step = s.make_callable([loss, train], feed_list=[x, y])
    images = np.random.rand(100, 784).astype(np.float32)
    labels = np.arange(100) % 10
    return lambda: step(images, labels), 1


def sgemm(n):
    a = tf.Variable(tf.random.uniform([n, n]))
    b = tf.Variable(tf.random.uniform([n, n]))
    s = session()
    s.run(tf.global_variables_initializer())
    return s.make_callable(tf.matmul(a, b).op), 1


def convolution(batch, size, deep, wide, k, stride, backward):
    x = tf.Variable(tf.random.uniform([batch, size, size, deep]))
    w = tf.Variable(tf.random.uniform([k, k, deep, wide]))
    y = tf.nn.conv2d(x, w, strides=stride, padding="SAME")
    fetch = [y]
    if backward:
        dy = tf.Variable(tf.random.uniform(y.shape))
        fetch += tf.gradients(y, [x, w] if deep > 3 else [w], grad_ys=[dy])
    s = session()
    s.run(tf.global_variables_initializer())
    return s.make_callable([t.op for t in fetch]), 1


def transform(op, lines, n):
    x = tf.random.normal([lines, n])
    x = tf.Variable(x if op == "rfft" else tf.complex(x, x * 0.5),
                    use_resource=True)
    y = getattr(tf.signal, op)(x.read_value())
    s = session()
    s.run(tf.global_variables_initializer())
    return s.make_callable(y.op), 1


def parse_examples():
    def example(i):
        lists = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * 784])),
                 "words": tf.train.Feature(bytes_list=tf.train.BytesList(
                     value=[b"a", b"few", b"words"]))}
        for key, values in ("label", [i]), ("ids", [k * i * i for k in range(1, 21)]):
            lists[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        lists["size"] = tf.train.Feature(float_list=tf.train.FloatList(
            value=[k / 4 for k in range(1, 11)]))
        return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()

    batch = [example(i) for i in range(1, 129)]
    x = tf.io.parse_example(tf.constant(batch), {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "size": tf.io.FixedLenFeature([10], tf.float32),
        "ids": tf.io.FixedLenFeature([20], tf.int64),
        "words": tf.io.VarLenFeature(tf.string)})
    return session(False).make_callable(x["label"].op), len(batch)


def softmax_xent():
    logits = tf.Variable(tf.random.normal([400, 10000]), use_resource=True)
    labels = tf.placeholder(tf.int64, [400])
    x = logits.read_value()
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=x))
    s = session()
    s.run(tf.global_variables_initializer())
    step = s.make_callable([loss, tf.gradients(loss, x)[0].op],
                           feed_list=[labels])
    some = np.random.randint(0, 10000, 400)
    return lambda: step(some), 1


def sparse_sgd():
    table = tf.Variable(tf.random.normal([100000, 64]), use_resource=True)
    ids = tf.placeholder(tf.int64, [1000])
    loss = tf.reduce_sum(tf.square(tf.gather(table, ids)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    s = session()
    s.run(tf.global_variables_initializer())
    step = s.make_callable([loss, train], feed_list=[ids])
    some = np.random.randint(0, 100000, 1000)
    return lambda: step(some), 1


def table_lookup(mutable, words):
    n = 1000000

    def key(ids):
        return np.array([b"word%d" % i for i in ids]) if words else ids
    ids, some = np.arange(n), np.random.randint(0, n, n)
    s = session()
    if mutable:
        t = tf.lookup.experimental.MutableHashTable(
            tf.string if words else tf.int64, tf.int64, -1)
        s.run(t.insert(tf.constant(key(ids)), tf.constant(ids)))
    else:
        t = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            tf.constant(key(ids)), tf.constant(ids)), -1)
        s.run(tf.tables_initializer())
    return s.make_callable(t.lookup(tf.constant(key(some))).op), n


def lstm(xs, units, name):
    """An unrolled LSTM: gates i, j, f, o, forget bias 1."""
    kernel = tf.get_variable(name + "k", [xs[0].shape[1] + units, 4 * units])
    bias = tf.get_variable(name + "b", [4 * units],
                           initializer=tf.zeros_initializer())
    c = h = tf.zeros([xs[0].shape[0], units])
    out = []
    for x in xs:
        i, j, f, o = tf.split(
            tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias), 4, 1)
        c = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        out.append(h)
    return out


def ptb_lstm_step():
    tf.enable_resource_variables()
    inputs = tf.placeholder(tf.int64, [20, 20])
    targets = tf.placeholder(tf.int64, [20, 20])
    table = tf.get_variable("embedding", [10000, 200])
    x = tf.unstack(tf.gather(table, inputs), axis=1)
    for layer in ("one", "two"):
        x = lstm(x, 200, layer)
    w = tf.get_variable("w", [200, 10000])
    b = tf.get_variable("b", [10000], initializer=tf.zeros_initializer())
    logits = tf.matmul(tf.reshape(tf.stack(x, 1), [-1, 200]), w) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(targets, [-1]), logits=logits))
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(
        zip(grads, variables))
    s = session()
    s.run(tf.global_variables_initializer())
    step = s.make_callable([loss, train], feed_list=[inputs, targets])
    words = np.random.randint(0, 10000, (20, 20))
    return lambda: step(words, words), 1


def graph_build():
    def work():
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [10])
            for _ in range(1000):
                x = x + x
    return work, 1000


def growing_run():
    def work():
        with tf.Graph().as_default(), session() as s:
            x = tf.constant(1.0)
            for _ in range(200):
                s.run(tf.tanh(x + 1.0))
    return work, 200


def records_read():
    batch = 1000
    path = tempfile.mktemp()
    atexit.register(os.remove, path)
    with tf.io.TFRecordWriter(path) as w:
        for _ in range(32 * batch):
            w.write(b"x" * 1024)
    data = tf.data.TFRecordDataset(path).repeat().batch(batch)
    values = tf.data.make_one_shot_iterator(data).get_next()
    return session().make_callable(values.op), batch


def checkpoint(load):
    """100 MiB by a Saver, which does not sync; before a load it is forgotten."""
    folder = tempfile.mkdtemp(dir=os.getcwd(), prefix=".bench-")
    atexit.register(shutil.rmtree, folder, True)
    for i in range(10):
        tf.get_variable(f"tensor_{i}", initializer=np.random.rand(10 << 18).astype(np.float32))
    s, saver, path = session(), tf.train.Saver(), os.path.join(folder, "m")
    s.run(tf.global_variables_initializer())

    def save():
        saver.save(s, path, write_meta_graph=False, write_state=False)

    def restore():
        with open(path + ".data-00000-of-00001", "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        saver.restore(s, path)
    save()
    return restore if load else save, 1


def queue_pairs():
    q = tf.FIFOQueue(10, [tf.float32], [[]])
    s = session()
    put = s.make_callable(q.enqueue(tf.constant(1.0)))
    get = s.make_callable(q.dequeue().op)

    def work():
        put()
        get()
    return work, 1


def following(data, op):
    return session().make_callable(op(tf.data.make_one_shot_iterator(data).get_next()))


def shuffled_batches():
    data = tf.data.Dataset.from_tensor_slices(tf.zeros([60000, 784]))
    data = data.shuffle(10000, 1).repeat().batch(128)
    # As many as Tide has ready. Left to itself TensorFlow keeps a thousand batches, which it
    # makes while the other is measured, and is then measured taking them out.
    return following(data.prefetch(2), lambda x: x.op), 128


def pictures_read():
    some = []
    with tf.Session() as s:
        for i in range(64):
            noise = tf.image.resize(tf.random.uniform([32, 32, 3], seed=i), [256, 256])
            some.append(s.run(tf.io.encode_jpeg(tf.cast(noise * 255, tf.uint8))))

    def read(b):
        image = tf.cast(tf.io.decode_jpeg(b, channels=3), tf.float32)
        return tf.image.resize(image, [224, 224])
    data = tf.data.Dataset.from_tensor_slices(some).repeat()
    data = data.map(read, num_parallel_calls=THREADS).batch(32)
    return following(data, lambda x: x.op), 32, 8


SERVER = """
import sys
import tensorflow.compat.v1 as tf
tf.train.Server({"worker": sys.argv[2:]}, job_name="worker",
                task_index=int(sys.argv[1])).join()
"""


def servers(n):
    """A session on the first of n grpc servers, each a process of its own."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in taken]
    for s in taken:
        s.close()
    for i in range(n):
        p = subprocess.Popen([sys.executable, "-c", SERVER, str(i), *addresses],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        atexit.register(p.kill)
    return tf.Session("grpc://" + addresses[0])


def on(task):
    return tf.device(f"/job:worker/task:{task}")


def worker_null(n):
    steps = []
    for i in range(n):
        with on(i):
            steps.append(tf.no_op())
    return servers(n).make_callable(steps[0] if n == 1 else tf.group(*steps)), 1


def worker_loop():
    """A loop of the first task whose counter goes to the second and back."""
    n = 200

    def body(i):
        with on(1):
            return i + 1
    with on(0):
        i = tf.while_loop(lambda i: tf.less(i, n), body, [tf.constant(0)])
    return servers(2).make_callable(i), n


def worker_fetch():
    with on(0):
        v = tf.Variable(tf.ones([25 << 20]))
    s = servers(1)
    s.run(v.initializer)
    return s.make_callable(v), 1


ROWS = {
    "worker_null_one": lambda: worker_null(1),
    "worker_null_two": lambda: worker_null(2),
    "worker_loop_far": worker_loop,
    "worker_fetch_far": worker_fetch,
    "dispatch_chain": lambda: dispatch(lambda x: [chain(x, NODES)]),
    "dispatch_independent": lambda: dispatch(lambda x: [tf.identity(x) for _ in range(NODES)]),
    "dispatch_chains8": lambda: dispatch(lambda x: [chain(x, NODES // 8) for _ in range(8)]),
    "dispatch_layered": lambda: dispatch(layered),
    "null_run_lua": lambda: (session().make_callable(tf.no_op()), 1),
    "while_loop": while_loop,
    "while_grad": while_grad,
    "mlp_step": mlp_step,
    "parse_examples": parse_examples,
    "softmax_xent": softmax_xent,
    "sparse_sgd": sparse_sgd,
    "table_lookup": lambda: table_lookup(False, True),
    "table_lookup_int": lambda: table_lookup(False, False),
    "table_lookup_mutable": lambda: table_lookup(True, True),
    "table_lookup_mutable_int": lambda: table_lookup(True, False),
    "ptb_lstm_step": ptb_lstm_step,
    "graph_build": graph_build,
    "growing_run": growing_run,
    "records_read": records_read,
    "checkpoint_save": lambda: checkpoint(False),
    "checkpoint_load": lambda: checkpoint(True),
    "queue_pairs": queue_pairs,
    "shuffled_batches": shuffled_batches,
    "pictures_read": pictures_read,
}
for size in (64, 512, 1024, 2048):
    ROWS[f"sgemm_{size}"] = lambda n=size: sgemm(n)
for name, sizes in peer.CONVOLUTIONS.items():
    ROWS[name] = lambda s=sizes: convolution(*s, False)
    ROWS[f"{name}_step"] = lambda s=sizes: convolution(*s, True)
for name, how in peer.TRANSFORMS.items():
    ROWS[name] = lambda h=how: transform(*h)

for name in models.MODELS:
    for suffix in ("", "_step"):
        ROWS[name + suffix] = lambda r=name + suffix: tensorflow_models.row(r, session)

peer.serve(*ROWS[ROW]())
