"""Cells own their nodes: what a cell run again does to the graph."""
import os
import random

SOAK = os.environ.get("TIDE_SOAK")


def run(client, cell, code):
    msg_id = client.send("execute_request", client.cell(code),
                         metadata={"cellId": cell} if cell else None)
    return client.finish(msg_id)


def note(r):
    """The text of a note about stale cells, or None."""
    texts = [c["data"]["text/plain"] for c in r.of("display_data")]
    return next((t for t in texts if "built before" in t), None)


def size(client):
    return int(run(client, None, "td.get_default_graph():size()").value())


def test_a_cell_by_its_id(client):
    run(client, None, "td.reset()")
    run(client, "a", 'W = td.variable({1.0, 2.0}, "W"); sess = td.session()\n'
        "sess:init()")
    before = size(client)
    run(client, "x", "sess:run(W.initializer, {[W.initial_value] = {5.0, 6.0}})"
        ";")
    r = run(client, "a", 'W = td.variable({3.0, 4.0}, "W"); sess:init()\n'
            "W.name")
    assert r.value() == '"W"'
    assert run(client, "y", "sess:run(W):table()[2]").value() == "6.0"
    assert size(client) == before


def test_a_queue_of_another_form(client):
    run(client, None, "td.reset(); sess = td.session()")
    for first, dtype in ("1", "int32"), ("'x'", "string"), ("'y'", "string"):
        r = run(client, "q", f"q = td.fifo_queue(2, '{dtype}', {{}})\n"
                f"sess:run(q:enqueue({first})); sess:run(q:size())")
        assert (r.status, r.value()) == ("ok", "1"), r.content


def test_a_cell_by_its_text(client):
    run(client, None, "td.reset()")
    for _ in range(3):
        assert run(client, None, 'q = td.constant(1, "q"); q.name'
                   ).value() == '"q:0"'
    assert run(client, None, 'q = td.constant(2, "q"); q.name'
               ).value() == '"q_1:0"'


def test_stale_cells_are_named(client):
    run(client, None, "td.reset()")
    a = run(client, "a", "x = td.constant(1.0)").content["execution_count"]
    b = run(client, "b", "y = x + 1").content["execution_count"]
    r = run(client, "a", "x = td.constant(2.0)")
    assert note(r) == (f"In[{b}] uses what In[{a}] built before: "
                       "run it again"), r.shown
    assert run(client, "c", "td.session():run(y)").value() == "2.0"
    assert note(run(client, "b", "y = x + 1")) is None
    assert run(client, "c", "td.session():run(y)").value() == "3.0"


def test_what_is_gone_says_so(client):
    run(client, None, "td.reset()")
    n = run(client, "a", 'x = td.constant(1, "x")').content["execution_count"]
    run(client, "b", "old = x")
    run(client, "a", 'x = td.constant(2, "x")')
    r = run(client, "c", "td.session():run(old)")
    assert (f'node "x" was replaced when cell In[{n}] ran again'
            in r.content["evalue"]), r.content


def test_cells_are_listed(client):
    run(client, None, "td.reset()")
    run(client, "a", "x = td.constant(1)")
    r = run(client, None, "%cells")
    assert "In[" in r.text() + str(r.of("execute_result"))


# ---- twenty cells in random order ---------------------------------------------

CELLS = ([f'v{i} = td.variable({i}.0, "v{i}"); sess:init()'
          for i in range(1, 7)]
         + [f"k = k + 1; t{i} = v{i} * 2 + k" for i in range(1, 7)]
         + [f"u{i} = t{i} + t{i + 1} + v{i + 2}" for i in range(1, 5)]
         + [f"sess:run(v{i}:assign_add(1.0)); return sess:run(u{i})"
            for i in range(1, 5)])


# Functions, two that call others, gradients, a loop, a cond, callables. What a
# function was made with tells which run of its cell it is of.
FLOW = ([f'v{i} = td.variable({i}.0, "v{i}"); sess:init()' for i in range(1, 5)]
        + [f'k = k + 1; local n = k; f{i} = td.func(function(x) '
           f'return x * {i} + n end, "float32", {{name = "f{i}"}})'
           for i in range(1, 4)]
        + [f'g{i} = td.func(function(x) return f{i}(x) * f{i + 1}(x) end, '
           '"float32")' for i in range(1, 3)]
        + [f"y{i} = f{i}(v{i}) + g{(i + 1) // 2}(v{i + 1})"
           for i in range(1, 4)]
        + ["dy = td.gradients(y1 + y2, {v1.handle, v2.handle})",
           "local n, x = td.while_loop(function(n) return n:less(3) end, "
           "function(n, x) return n + 1, f1(x) end, {0, v1 + 0.0}); w = x",
           "c = td.cond((y1 + 0.0):greater(9.0), "
           "function() return f2(v2) end, function() return y3 + w end)",
           "step = sess:callable(y1); bump = sess:callable(v1:assign_add(1.0))",
           "bump(); return step(), sess:run(w)",
           "return sess:run(c), sess:run(dy[1]), sess:run(dy[2])",
           "sess:run(v2:assign_add(1.0)); return sess:run(y2), sess:run(y3)",
           "for i = 1, 3 do z = (v1 + i):eval() end return z"])

def play(client, cells, order):
    """What each run said, the variables, and the sizes of graph and library."""
    run(client, None, "td.reset(); k = 0; sess = td.session()")
    said = []
    for c in order:
        r = run(client, f"cell {c}", cells[c])
        values = [x["data"]["text/plain"] for x in r.of("execute_result")]
        stale = note(r)
        said.append((c, r.status, values, stale and stale.count("In[")))
    values = [run(client, None, f"sess:run(v{i})").value()
              for i in range(1, 5)]
    functions = run(client, None, '#require "tide.core".functions('
                    "td.get_default_graph())").value()
    return said, values, size(client), int(functions)


def as_in_a_fresh_kernel(fresh, cells, first, slack):
    """Random runs, after the first cells once, again in another kernel."""
    assert len(cells) == 20
    with fresh().client() as a:
        *_, once, library = play(a, cells, range(20))
        order = [c for c in range(20) for _ in range(50 if SOAK else 4)]
        random.Random(7).shuffle(order)
        order = list(range(first)) + order
        said, values, grown, functions = play(a, cells, order)
    with fresh().client() as b:
        again = play(b, cells, order)
    assert again == (said, values, grown, functions)
    assert grown <= slack * once, (grown, once)
    assert functions <= slack * library, (functions, library)
    return said


def test_random_order_is_as_in_a_fresh_kernel(fresh):
    as_in_a_fresh_kernel(fresh, CELLS, 6, 3)


def test_functions_and_flow_in_random_order(fresh):
    said = as_in_a_fresh_kernel(fresh, FLOW, 20, 4)
    assert all(status == "ok" for _, status, _, _ in said[:20]), said[:20]
