"""A kernel that is given little: file descriptors, memory, a disk."""
import os

from kernel import Kernel

SOAK = bool(os.environ.get("TIDE_SOAK"))
LEAST = 59  # descriptors, with the three streams

TAKE_ALL = """
files = {}
repeat
  files[#files + 1], why = io.open "/dev/null"
until why
print(why)"""


def limited(fresh, limits):
    """A kernel that starts under `ulimit`."""
    tide = os.path.abspath(os.path.join(Kernel.build, "tide"))
    shell = f'{limits} && exec "$0" kernel "$1"'
    return fresh(program=["bash", "-c", shell, tide])


def test_few_descriptors_are_refused_at_once(fresh):
    kernels = [(n, limited(fresh, f"ulimit -n {n}")) for n in range(10, LEAST)]
    for n, k in kernels:
        assert k.wait() == 1, n
        assert f"of the {n} that the limit allows" in k.said(), k.said()


def test_a_few_more_are_enough(fresh):
    for n in range(LEAST, 65):
        with limited(fresh, f"ulimit -n {n}").client() as c:
            assert c.run("1 + 1").value() == "2"


def test_a_low_limit_is_raised_where_it_may_be(fresh):
    with limited(fresh, "ulimit -Sn 20").client() as c:
        assert c.run("1 + 1").value() == "2"


def test_a_cell_takes_all_descriptors(fresh):
    k = limited(fresh, "ulimit -n 64")
    with k.client() as c:
        c.request("usage_request", {}, "control")  # its connection is there
        assert "Too many open files" in c.run(TAKE_ALL).text()
        assert c.run("1 + 1").value() == "2"
        for code in ("return io.popen 'ls'", "return os.tmpname()",
                     "%capture print(1)", "%run nothing.lua", "!true",
                     "return require 'no.such.module'", "error 'x'",
                     "return td.load_npy 'x.npy'"):
            assert c.run(code).status in ("ok", "error")
        for kind, content in (
                ("complete", {"code": "io.open('/tm", "cursor_pos": 12}),
                ("inspect", {"code": "print", "cursor_pos": 3}),
                ("history", {"hist_access_type": "tail", "n": 3}),
                ("is_complete", {"code": "for"})):
            r = c.request(f"{kind}_request", content)
            assert r.status in ("ok", "incomplete"), (kind, r.content)
        for kind, content in (
                ("create_subshell", {}), ("usage", {}), ("interrupt", {}),
                ("debug", {"type": "request", "seq": 1,
                           "command": "debugInfo"})):
            r = c.request(f"{kind}_request", content, "control")
            assert r.content.get("status", "ok") in ("ok", "error"), r.content
        with k.client(ready=False) as late:
            late.send("kernel_info_request", {})
            assert c.run("for _, f in ipairs(files) do f:close() end\n"
                         "files = nil\nreturn 3").value() == "3"
            assert late.get()["msg_type"] == "kernel_info_reply"


def test_streams_that_take_nothing(fresh):
    """The kernel's own: what cells write goes elsewhere."""
    tide = os.path.abspath(os.path.join(Kernel.build, "tide"))
    for way in (">/dev/full 2>&1", ">&- 2>&-", "<&- >&- 2>&-", "2>&1 | true",
                "1</dev/null 2>&1"):
        shell = f'"$0" kernel "$1" {way}'
        k = fresh(program=["bash", "-c", shell, tide])
        with k.client() as c:
            r = c.run("print 'a' io.stderr:write 'b' os.execute 'echo c'")
            assert r.status == "ok", way
            assert r.text() == "a\nc\n" and r.text("stderr") == "b", r.shown
            assert c.run("error 'x'").status == "error"
            c.shell.send_multipart([b"no message"])
            assert c.run("1 + 1").value() == "2"
            c.request("shutdown_request", {"restart": False}, "control")
        k.wait()


HOGS = ["t = {} for i = 1, 1e9 do t[i] = i end",
        "t = {} for i = 1, 1e9 do t[i] = 'abcdefgh' .. i end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = {t} end",
        "u = u or {} for i = 1, 1e9 do u[#u + 1] = {} end",
        "local f for i = 1, 1e9 do local g = f f = function() g() end end",
        "t = {} for i = 1, 1e9 do t[i] = coroutine.create(print) end",
        "for i = 1, 9 do pcall(string.rep, 'x', 1e9) end error 'memory'",
        "x = {} for i = 1, 1e9 do x[i] = td.value.fill({100000}, i) end",
        "return ('x'):rep(1 << 40)", "local function f() return 1 + f() end f()",
        "setmetatable({}, {__gc = function() error 'x' end}) t = {} "
        "for i = 1, 1e9 do t[i] = {i} end"]


def test_memory_ends(fresh):
    """Always an error reply, and the next request is served."""
    with limited(fresh, "ulimit -v 300000").client() as c:
        for i in range(104 if SOAK else len(HOGS)):
            r = c.run(HOGS[i % len(HOGS)])
            assert r.status == "error", (i, r.content)
            assert any(word in r.content["evalue"] for word in (
                "memory", "bytes", "overflow", "too large")), r.content
            assert c.request("complete_request", {
                "code": "io.", "cursor_pos": 3}).content["status"]
            assert c.request("is_complete_request",
                             {"code": "for"}).content["status"]
        assert c.run("t, u, x = nil collectgarbage() return 3").value() == "3"
        assert c.run("return 1 + 1").value() == "2"


def test_large_cells_do_not_stay(fresh):
    """What is kept of inputs, sources and messages has bounds."""
    size, n = (10 << 20, 20) if SOAK else (5 << 20, 8)
    k = fresh()
    with k.client() as c:
        c.run("kept = 0")
        before = k.memory()
        for i in range(n):
            c.run(f"-- {i}{'x' * size}\nkept = kept + 1", timeout=60)
        assert c.run("kept").value() == str(n)
        c.run("collectgarbage()")
        grown = k.memory() - before
        assert grown < 30 << 20, grown
