"""TensorFlow's side: graph mode, callables, no graph rewriting on null graphs."""
import numpy as np
import tensorflow.compat.v1 as tf

import peer

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


def graph_build():
    def work():
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [10])
            for _ in range(1000):
                x = x + x
    return work, 1000


ROWS = {
    "dispatch_chain": lambda: dispatch(lambda x: [chain(x, NODES)]),
    "dispatch_independent": lambda: dispatch(lambda x: [tf.identity(x) for _ in range(NODES)]),
    "dispatch_chains8": lambda: dispatch(lambda x: [chain(x, NODES // 8) for _ in range(8)]),
    "dispatch_layered": lambda: dispatch(layered),
    "null_run_lua": lambda: (session().make_callable(tf.no_op()), 1),
    "while_loop": while_loop,
    "while_grad": while_grad,
    "mlp_step": mlp_step,
    "graph_build": graph_build,
}
for size in (64, 512, 1024, 2048):
    ROWS[f"sgemm_{size}"] = lambda n=size: sgemm(n)
for name, sizes in peer.CONVOLUTIONS.items():
    ROWS[name] = lambda s=sizes: convolution(*s, False)
    ROWS[f"{name}_step"] = lambda s=sizes: convolution(*s, True)

peer.serve(*ROWS[ROW]())
