"""What is shown: order, batches, limits, rates, and nothing lost."""
import glob
import os
import time

SOAK = bool(os.environ.get("TIDE_SOAK"))
UNLIMITED = ["--output-limit", "0"]


def few(client, code, rate=30):
    """The reply to a cell whose text came in few messages a second."""
    start = time.monotonic()
    r = client.run(code, timeout=120)
    assert len(r.of("stream")) < 60 + rate * (time.monotonic() - start)
    return r


def test_a_million_lines(fresh):
    with fresh(UNLIMITED).client() as c:
        r = few(c, "for i = 1, 1000000 do print(i) end")
        assert r.text().split() == [str(i) for i in range(1, 1000001)]


def test_millions_of_short_writes(fresh):
    """They go on for longer than text waits for more."""
    with fresh(UNLIMITED).client() as c:
        r = few(c, "for i = 1, 5000000 do io.write('x') end")
        assert r.text() == "x" * 5000000


def test_flushed_lines(fresh):
    with fresh(UNLIMITED).client() as c:
        r = few(c, "for i = 1, 300000 do print(i) io.flush() end")
        assert len(r.text().split()) == 300000


def test_a_large_result(client):
    size = 50_000_000 if SOAK else 5_000_000
    r = client.run(f"td = td or require 'tide'\nlocal s = ('x'):rep({size})\n"
                   "td.register_repr(function(x) return x == s end, "
                   "'text/html', function() return s end)\nreturn s",
                   timeout=120)
    assert r.status == "ok"
    assert len(r.of("execute_result")[0]["data"]["text/html"]) == size


def test_a_large_display(client):
    size = 50_000_000
    r = client.run(f"local s = ('y'):rep({size})\n"
                   "require('tide.frontend.publish')('display_data', "
                   "{data = {['text/plain'] = s}, metadata = {}})",
                   timeout=120)
    assert len(r.of("display_data")[0]["data"]["text/plain"]) == size


def test_both_streams_in_turns(fresh):
    with fresh(UNLIMITED).client() as c:
        r = few(c, "for i = 1, 100000 do print(i) io.stderr:write(i, '\\n') end",
                rate=300)
        for name in ("stdout", "stderr"):
            assert r.text(name).split() == [str(i) for i in range(1, 100001)]


def test_slow_turns(fresh):
    """As many as may keep their order: below the 1,000 a second of servers."""
    with fresh(UNLIMITED).client() as c:
        few(c, "for i = 1, 2000 do print(i) io.stderr:write(i, '\\n') "
               "local t = os.clock() + 0.0005 while os.clock() < t do end end", rate=900)


def test_a_few_turns_keep_their_order(client):
    r = client.run("print 'a' io.stderr:write 'b' print 'c'")
    assert [(s["name"], s["text"]) for s in r.of("stream")] == [
        ("stdout", "a\n"), ("stderr", "b"), ("stdout", "c\n")]


def test_output_before_displays(client):
    r = client.run("print 'a'\nlocal p = require 'tide.frontend.publish'\n"
                   "p('display_data', {data = {['text/plain'] = 'b'}, "
                   "metadata = {}})\nprint 'c'")
    assert r.types() == ["execute_input", "stream", "display_data", "stream"]


def test_children_and_descriptors(client):
    r = client.run("print 'a'\nos.execute 'echo b; echo c >&2'\nprint 'd'")
    assert r.text() == "a\nb\nd\n", r.of("stream")
    assert r.text("stderr") == "c\n"
    r = client.run("local f = io.open('/dev/stdout', 'w')\nf:write 'e\\n'\n"
                   "f:close()\nprint 'f'")
    assert sorted(r.text().split()) == ["e", "f"]


def test_much_output_of_a_child(fresh):
    with fresh(UNLIMITED).client() as c:
        r = c.run("os.execute 'seq 200000'", timeout=60)
        assert r.text().split() == [str(i) for i in range(1, 200001)]
        assert len(r.of("stream")) < 200


def test_output_goes_to_its_own_cell(client):
    ids = [client.start(f"print({i}) os.execute 'echo c{i}'")
           for i in range(20)]
    for i, m in enumerate(ids):
        assert client.finish(m).text() == f"{i}\nc{i}\n"


def test_the_limit_of_a_cell(kernel, client):
    r = client.run("for i = 1, 300000 do print(i) end", timeout=60)
    text = r.text().split()
    assert text[0] == "1" and text[-1] == "300000"
    assert len(r.text()) < 1 << 20
    said = r.text("stderr")
    assert "left out" in said and "more output" in said
    path = glob.glob(kernel.path("state/tide/output/*.txt"))[0]
    assert path in said
    with open(path, encoding="utf-8") as f:
        assert f.read().split() == [str(i) for i in range(1, 300001)]
    assert os.stat(path).st_mode & 0o77 == 0
    left_out = int(said.split("[")[2].split()[0])
    assert left_out == 300000 - len(text)
    assert client.run("1").value() == "1"


def test_the_limit_can_be_set(fresh):
    with fresh(["--output-limit", "1000"]).client() as c:
        r = c.run("for i = 1, 10000 do print(i) end")
        assert len(r.text()) <= 1100
        assert r.text().startswith("1\n2\n")
        assert r.text().endswith("9999\n10000\n")
        assert c.run("print 'x'").text() == "x\n"


def test_the_limit_without_a_place_for_the_file(fresh):
    k = fresh(["--output-limit", "1000"],
              env={"XDG_STATE_HOME": "/proc/none"})
    with k.client() as c:
        r = c.run("for i = 1, 10000 do print(i) end")
        assert r.text().endswith("10000\n")
        assert "no file could be written" in r.text("stderr")


def test_one_long_line_over_the_limit(fresh):
    with fresh(["--output-limit", "1000"]).client() as c:
        r = c.run("io.write(('ä'):rep(5000))")
        assert set(r.text()) == {"ä"}
        assert 400 < len(r.text()) <= 520, len(r.text())


def test_progress_lines_are_collapsed(client):
    r = client.run("for i = 1, 10000 do io.write(('\\r%d%%'):format(i)) end\n"
                   "print ' done'")
    assert len(r.text()) < 100
    assert r.text().endswith("10000% done\n")
    r = client.run("io.write 'abc\\rX\\n'")
    assert r.text() in ("Xbc\n", "abc\rX\n")
    assert client.run("io.write 'dos\\r\\nline\\r\\n'").text() == "dos\nline\n"


def test_updates_of_a_display_at_a_thousand_a_second(client):
    start = time.monotonic()
    r = client.run("""
local p = require 'tide.frontend.publish'
p('display_data', {data = {['text/plain'] = '0'}, metadata = {},
                   transient = {display_id = 'd'}})
local t = os.clock()
local n = 0
while os.clock() - t < 1 do
  n = n + 1
  p('update_display_data', {data = {['text/plain'] = tostring(n)},
                            metadata = {}, transient = {display_id = 'd'}})
end
return n""")
    updates = r.of("update_display_data")
    n = int(r.value())
    most = (time.monotonic() - start) * 10 + 3
    assert n > 1000 and 5 <= len(updates) <= most, (n, len(updates), most)
    assert updates[-1]["data"]["text/plain"] == str(n)
    assert all(u["transient"] == {"display_id": "d"} for u in updates)


def test_displays_without_an_id_are_not_thinned(client):
    r = client.run("for i = 1, 50 do require('tide').display(i) end")
    assert len(r.of("display_data")) == 50


def test_several_displays_each_get_their_last(client):
    r = client.run("""
local p = require 'tide.frontend.publish'
for i = 1, 100 do
  for d = 1, 5 do
    p('update_display_data', {data = {['text/plain'] = tostring(i)},
      metadata = {}, transient = {display_id = 'd' .. d}})
  end
end""")
    last = {}
    for u in r.of("update_display_data"):
        last[u["transient"]["display_id"]] = u["data"]["text/plain"]
    assert last == {f"d{i}": "100" for i in range(1, 6)}


def test_buffers_go_out_and_come_in(client):
    m = client.start("require('tide.frontend.publish')('comm_msg', "
                     "{comm_id = 'c', data = {}}, nil, "
                     "{'\\0\\255', '', ('z'):rep(100000)})")
    r = client.finish(m)
    shown = [s for s in r.shown if s["msg_type"] == "comm_msg"][0]
    assert [bytes(b) for b in shown["buffers"]] == [
        b"\0\xff", b"", b"z" * 100000]
    m = client.send("comm_msg", {"comm_id": "none", "data": {}},
                    buffers=[b"\0" * 1000000, b""])
    client.shown_by(m)


def test_text_comes_within_a_tenth_of_a_second(client):
    m = client.start("print 'now'\nlocal t = os.clock()\n"
                     "while os.clock() - t < 1 do end")
    start = time.monotonic()
    while client.get("iopub")["msg_type"] != "stream":
        pass
    assert time.monotonic() - start < 0.7
    client.finish(m)


def test_a_client_that_does_not_read(kernel, client):
    """The others see everything, and soon."""
    with kernel.client(channels=("iopub",), ready=False) as deaf:
        time.sleep(0.2)
        n = 30000 if SOAK else 500
        r = client.run(f"for i = 1, {n} do require('tide').display(i) end",
                       timeout=120)
        assert len(r.of("display_data")) == n
        assert deaf.iopub.poll(1000)


def test_idle_comes_after_all_output(client):
    for _ in range(100):
        r = client.run("io.write 'a' os.execute 'echo b'")
        assert r.text() == "ab\n"
