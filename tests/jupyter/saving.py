"""State that lasts: a save that is interrupted, a kernel that is restarted."""
import json
import os
import random
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NOTEBOOK = os.path.join(HERE, "..", "..", "tutorials", "saving.ipynb")

# 200 MB: a save takes some tenths of a second, so that interrupts fall into it.
BIG = """td = require 'tide'
n = td.variable(0, {name = 'n', trainable = false})
big = {}
for i = 1, 4 do
  big[i] = td.variable(td.fill({12500000}, i + 0.5), 'big' .. i)
end
more = {n:assign_add(1)}
for i, v in ipairs(big) do more[i + 1] = v:assign_add(td.ones_like(v)).op end
sess = td.session()
sess:init()
saver = td.train.saver{max_to_keep = 2}
function save() return saver:save(sess, '%s/model', {global_step = n:eval()}) end
function at(c) return td.train.load_variable(c, 'n'):item() end
function whole()
  local c = td.train.verify_checkpoint '%s'
  local b = td.train.load_variable(c, 'big4')
  local low, high = td.reduce_min(b):item(), td.reduce_max(b):item()
  assert(low == high and low == 4.5 + at(c), 'torn')
  return at(c)
end"""


def restart(kernel):
    with kernel.client() as c:
        c.send("shutdown_request", {"restart": True}, "control")
        c.get("control")
    assert kernel.wait() == 0
    kernel.start()


def must(client, code):
    r = client.run(code)
    assert r.status == "ok", (r.content, r.shown)
    return r


def interrupt_in(client, code, delay):
    """Runs it, and interrupts it after so many seconds; was it in time?"""
    m = client.start_running(code)
    time.sleep(delay)
    asked = client.send("interrupt_request", {}, "control")
    began = time.monotonic()
    r = client.finish(m)
    client.reply_to(asked, "control")  # it must not hit the next cell
    assert time.monotonic() - began < 5
    if r.status == "error":
        assert r.content["ename"] == "KeyboardInterrupt", r.content
    return r.status == "error"


def test_a_save_that_is_interrupted(fresh):
    k = fresh()
    folder = k.path("big")
    with k.client() as c:
        must(c, BIG % (folder, folder))
        must(c, "save()")
        done, stopped, rounds = 0, 0, 6
        for i in range(rounds):
            must(c, "sess:run(more)")
            delay = random.uniform(0.02, 0.45) if i else 0.02
            if interrupt_in(c, "save()", delay):
                stopped += 1
            else:
                done = i + 1
            r = c.run("whole()")
            assert r.status == "ok" and done <= int(r.value()) <= i + 1, (
                done, i, r.content, r.shown)
        assert stopped > 0
        must(c, "save()")
        assert must(c, "whole()").value() == str(rounds)
        names = os.listdir(folder)
        assert len(names) == 5, names  # two checkpoints, the state file


NET = """td = require 'tide'
td.seed(3)
x = td.placeholder('float32', {-1, 8}, 'x')
h = td.nn.dropout(td.layers.dense(x, 16, {activation = td.tanh}), 0.5)
loss = ((td.layers.dense(h, 1) - x:sum(1, {keep_dims = true})) ^ 2):mean()
train = td.train.adam(0.01):minimize(loss)
loop = td.data.of{x = td.value.random_normal({90, 8}, {seed = 1})}
  :batches(10, {epochs = 9, shuffle = true})
sess = td.session()
saver = td.train.saver()
function steps(n)
  local l
  for _ = 1, n do l = sess:run({loss, train}, {[x] = loop().x})[1] end
  return ('%%a'):format(l)
end
folder = '%s'"""


def test_a_restart_loses_nothing(fresh):
    k = fresh()
    folder = k.path("net")
    with k.client() as c:
        must(c, NET % folder)
        must(c, "sess:init() steps(13)")
        must(c, "saver:save(sess, folder .. '/m', {keep = {loop = loop}})")
        want = must(c, "steps(20)").value()
    restart(k)
    with k.client() as c:
        assert c.run("saver").value() in (None, "nil")
        must(c, NET % folder)
        must(c, "saver:restore(sess, folder, {keep = {loop = loop}})")
        assert must(c, "steps(20)").value() == want


def cells_of_the_job():
    """Of the tutorial: the cell with the job, the one that goes on, the one that
    compares."""
    with open(NOTEBOOK, encoding="utf-8") as f:
        code = ["".join(c["source"]) for c in json.load(f)["cells"]
                if c["cell_type"] == "code"]
    first = next(i for i, text in enumerate(code) if "function train_to" in text)
    return code[first:first + 3]


def test_the_tutorial_over_a_restart(fresh):
    k = fresh(env={"HOME": fresh(start=False).folder.name})
    job, go_on, compare = cells_of_the_job()
    with k.client() as c:
        must(c, job)
        m = c.start_running(go_on)
        c.send("interrupt_request", {}, "control")
        c.finish(m)
    restart(k)
    with k.client() as c:
        must(c, job)
        assert "epoch 3, step 60" in must(c, go_on).text()
        assert "the same bits: true" in must(c, compare).text()
