"""The nets that are timed, as lists of steps; the peers build them from these.

A step is (kind, arguments...): "conv" and "dense" with relu, where `norm` is
(momentum, epsilon, scale) of a batch normalization in between; "max" and
"average" pools; "mean" over the image; "flatten"; "dropout"; "fork", lists of
steps on the same input put side by side; "add", the relu of their sum.
SPDX-License-Identifier: Apache-2.0
"""


def conv(filters, size, stride=1, padding="SAME", norm=None, relu=True):
    rows, columns = size if isinstance(size, tuple) else (size, size)
    return ("conv", filters, rows, columns, stride, padding, norm, relu)


def pool(kind, size, stride, padding="VALID"):
    return (kind, size, stride, padding)


LENET = [
    conv(32, 5), pool("max", 2, 2), conv(64, 5), pool("max", 2, 2),
    ("flatten",), ("dense", 1024, True), ("dense", 10, False),
]


def vgg_a():
    steps = []
    for stage in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        steps += [conv(n, 3) for n in stage] + [pool("max", 2, 2)]
    steps.append(("flatten",))
    for _ in range(2):
        steps += [("dense", 4096, True), ("dropout", 0.5)]
    return steps + [("dense", 1000, False)]


def resnet50():
    norm = (0.9, 1e-5, True)
    steps = [conv(64, 7, 2, norm=norm), pool("max", 3, 2, "SAME")]
    for i, (blocks, n) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for j in range(blocks):
            stride = 2 if i > 0 and j == 0 else 1
            inner = [conv(n, 1, stride, norm=norm), conv(n, 3, norm=norm),
                     conv(4 * n, 1, norm=norm, relu=False)]
            project = conv(4 * n, 1, stride, norm=norm, relu=False)
            steps.append(("add", [inner, [project] if j == 0 else []]))
    return steps + [("mean",), ("dense", 1000, False)]


def inception_v3():
    norm = (0.99, 1e-3, False)

    def c(filters, size, stride=1, padding="SAME"):
        return conv(filters, size, stride, padding, norm)

    def valid(filters, size, stride=1):
        return c(filters, size, stride, "VALID")

    most, mean = pool("max", 3, 2), pool("average", 3, 1, "SAME")

    def five(n):
        return ("fork", [[c(64, 1)], [c(48, 1), c(64, 5)],
                         [c(64, 1), c(96, 3), c(96, 3)], [mean, c(n, 1)]])

    def six(n):
        a, b = (1, 7), (7, 1)
        return ("fork", [[c(192, 1)], [c(n, 1), c(n, a), c(192, b)],
                         [c(n, 1), c(n, b), c(n, a), c(n, b), c(192, a)],
                         [mean, c(192, 1)]])

    def seven():
        both = ("fork", [[c(384, (1, 3))], [c(384, (3, 1))]])
        return ("fork", [[c(320, 1)], [c(384, 1), both],
                         [c(448, 1), c(384, 3), both], [mean, c(192, 1)]])

    return [
        valid(32, 3, 2), valid(32, 3), c(64, 3), most, valid(80, 1),
        valid(192, 3), most, five(32), five(64), five(64),
        ("fork", [[valid(384, 3, 2)], [c(64, 1), c(96, 3), valid(96, 3, 2)],
                  [most]]),
        six(128), six(160), six(160), six(192),
        ("fork", [[c(192, 1), valid(320, 3, 2)],
                  [c(192, 1), c(192, (1, 7)), c(192, (7, 1)), valid(192, 3, 2)],
                  [most]]),
        seven(), seven(), ("mean",), ("dropout", 0.2), ("dense", 1000, False),
    ]


# row without "_step": steps, shape of the images {height, width, depth}, batch
MODELS = {
    "lenet": (LENET, (28, 28, 1), 100),
    "vgg_a": (vgg_a(), (224, 224, 3), 8),
    "inception_v3": (inception_v3(), (299, 299, 3), 8),
    "resnet50": (resnet50(), (224, 224, 3), 8),
}


LRN = ("lrn", 2, 2.0, 1e-4, 0.75)  # radius, bias, alpha of one channel, beta


def full(*units):
    steps = []
    for n in units:
        steps += [("dense", n, True), ("dropout", 0.5)]
    return steps + [("dense", 1000, False)]


def alexnet():
    most = pool("max", 3, 2)
    return [conv(64, 11, 4), LRN, most, conv(192, 5), LRN, most, conv(384, 3), conv(256, 3),
            conv(256, 3), most, ("flatten",), *full(4096, 4096)]


def overfeat():
    most = pool("max", 2, 2)
    return [conv(96, 11, 4, "VALID"), most, conv(256, 5, 1, "VALID"), most, conv(512, 3),
            conv(1024, 3), conv(1024, 3), most, ("flatten",), *full(3072, 4096)]


def googlenet():
    most = pool("max", 3, 2, "SAME")

    def module(one, less3, three, less5, five, project):
        return ("fork", [[conv(one, 1)], [conv(less3, 1), conv(three, 3)],
                         [conv(less5, 1), conv(five, 5)],
                         [pool("max", 3, 1, "SAME"), conv(project, 1)]])

    return [
        conv(64, 7, 2), most, LRN, conv(64, 1), conv(192, 3), LRN, most,
        module(64, 96, 128, 16, 32, 32), module(128, 128, 192, 32, 96, 64), most,
        module(192, 96, 208, 16, 48, 64), module(160, 112, 224, 24, 64, 64),
        module(128, 128, 256, 24, 64, 64), module(112, 144, 288, 32, 64, 64),
        module(256, 160, 320, 32, 128, 128), most, module(256, 160, 320, 32, 128, 128),
        module(384, 192, 384, 48, 128, 128), ("mean",), ("dropout", 0.4),
        ("dense", 1000, False),
    ]


# Those of gpu.py, which says their sizes.
GPU_MODELS = {"alexnet": alexnet(), "overfeat": overfeat(), "googlenet": googlenet(),
              **{name: MODELS[name][0] for name in ("vgg_a", "inception_v3", "resnet50")}}
