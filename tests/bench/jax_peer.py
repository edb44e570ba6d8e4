"""JAX's side: jit with donated parameters."""
import functools

import jax
import jax.numpy as jnp

import peer

ROW, _ = peer.arguments()


def mlp_step():
    key = jax.random.PRNGKey(0)
    images = jax.random.uniform(key, (100, 784))
    labels = jnp.arange(100) % 10
    parameters = [jax.random.normal(key, (784, 100)) * 0.05, jnp.zeros(100),
                  jax.random.normal(key, (100, 10)) * 0.05, jnp.zeros(10)]

    def loss(p):
        h = jax.nn.relu(images @ p[0] + p[1])
        logits = jax.nn.log_softmax(h @ p[2] + p[3])
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(p):
        value, g = jax.value_and_grad(loss)(p)
        return value, [a - 0.01 * b for a, b in zip(p, g)]

    state = [parameters]

    def work():
        value, state[0] = step(state[0])
        value.block_until_ready()
    return work, 1


def convolution(batch, size, deep, wide, k, stride, backward):
    key = jax.random.PRNGKey(0)
    x = jax.random.uniform(key, (batch, size, size, deep))
    w = jax.random.uniform(key, (k, k, deep, wide))

    def forward(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def gradients(x, w, dy):
        y, back = jax.vjp(forward, x, w)
        return y, back(dy)[0 if deep > 3 else 1:]

    dy = jax.random.uniform(key, jax.eval_shape(forward, x, w).shape)
    step = jax.jit(gradients if backward else lambda x, w, dy: forward(x, w))
    return lambda: jax.block_until_ready(step(x, w, dy)), 1


ROWS = {"mlp_step": mlp_step}
for name, sizes in peer.CONVOLUTIONS.items():
    ROWS[name] = lambda s=sizes: convolution(*s, False)
    ROWS[f"{name}_step"] = lambda s=sizes: convolution(*s, True)

peer.serve(*ROWS[ROW]())
