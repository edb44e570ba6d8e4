"""The Debug Adapter Protocol: halts, steps, stacks, variables."""
import os
import shutil
import tempfile
import time

CELL = """function add(a, b)
  local sum = a + b
  return sum
end
local x = 1
x = add(x, 2)
y = x * 2"""
SEED = 0xc70f6907


def murmur(text):
    """MurmurHash2 as Jupyter's clients compute it."""
    m, data = 0x5bd1e995, text.encode()
    h = SEED ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & 0xffffffff
        k = (k ^ k >> 24) * m & 0xffffffff
        h = h * m & 0xffffffff ^ k
    if len(data) & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & 0xffffffff
    h = (h ^ h >> 13) * m & 0xffffffff
    return h ^ h >> 15


class Debugger:
    def __init__(self, client):
        self.client, self.seq = client, 0

    def ask(self, command, ok=True, **arguments):
        self.seq += 1
        c = self.client.request("debug_request", {
            "type": "request", "seq": self.seq, "command": command,
            "arguments": arguments}, "control").content
        assert c["type"] == "response" and c["request_seq"] == self.seq
        assert c["command"] == command
        assert c["success"] is ok, c
        return c["body"] if ok else c["message"]

    def attach(self):
        self.ask("initialize")
        self.ask("attach")
        self.ask("configurationDone")
        return self

    def event(self, of, name, ends=False):
        """The next such event of a cell; None where the cell may have ended
        instead, and has."""
        until = time.monotonic() + 10
        while True:
            m = self.client.next_of(of, "iopub", until)
            if ends and m["content"].get("execution_state") == "idle":
                return None
            if m["msg_type"] == "debug_event":
                assert m["content"]["event"] == name, m["content"]
                return m["content"]["body"]

    def break_at(self, code, *lines):
        path = self.ask("dumpCell", code=code)["sourcePath"]
        points = self.ask("setBreakpoints", source={"path": path},
                          breakpoints=[{"line": n} for n in lines])
        assert all(b["verified"] for b in points["breakpoints"])
        return path

    def stack(self, thread=1):
        return self.ask("stackTrace", threadId=thread)["stackFrames"]

    def locals(self, frame):
        scopes = self.ask("scopes", frameId=frame["id"])["scopes"]
        assert [s["name"] for s in scopes] == ["Locals", "Upvalues",
                                               "Globals"]
        shown = self.ask("variables", variablesReference=scopes[0][
            "variablesReference"])["variables"]
        return {v["name"]: v["value"] for v in shown}

    def end(self):
        self.ask("disconnect")


def test_info_before_anything(client):
    b = Debugger(client).ask("debugInfo")
    assert b["isStarted"] is False and b["breakpoints"] == []
    assert b["hashMethod"] == "Murmur2" and b["hashSeed"] == SEED
    assert b["stoppedThreads"] == [] and b["tmpFileSuffix"] == ".lua"


def test_the_name_of_a_cell(client):
    d = Debugger(client)
    info = d.ask("debugInfo")
    for code in ("", "a", "ab", "abc", "abcd", CELL, "ä\U0001f600" * 7):
        path = d.ask("dumpCell", code=code)["sourcePath"]
        assert path == f"{info['tmpFilePrefix']}{murmur(code)}.lua"
        assert d.ask("source", source={"path": path})["content"] == code


def test_a_breakpoint(client):
    d = Debugger(client).attach()
    path = d.break_at(CELL, 2)
    m = client.start(CELL)
    stopped = d.event(m, "stopped")
    assert stopped["reason"] == "breakpoint" and stopped["threadId"] == 1
    frames = d.stack()
    assert [f["line"] for f in frames] == [2, 6]
    assert frames[0]["name"] == "add" and frames[0]["source"]["path"] == path
    seen = d.locals(frames[0])
    assert seen["a"] == "1" and seen["b"] == "2", seen
    assert d.ask("debugInfo")["stoppedThreads"] == [1]
    assert d.ask("evaluate", expression="a + b * 10",
                 frameId=frames[0]["id"])["result"] == "21"
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    assert client.run("y").value() == "6"
    d.end()


def test_steps(client):
    d = Debugger(client).attach()
    d.break_at(CELL, 6)
    m = client.start(CELL)
    d.event(m, "stopped")
    d.ask("stepIn", threadId=1)
    assert d.event(m, "stopped")["reason"] == "step"
    assert d.stack()[0]["line"] == 2
    d.ask("next", threadId=1)
    d.event(m, "stopped")
    assert d.stack()[0]["line"] == 3
    assert d.locals(d.stack()[0])["sum"] == "3"
    d.ask("stepOut", threadId=1)
    d.event(m, "stopped")
    assert [f["line"] for f in d.stack()] in ([6], [7])
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    d.end()


def test_next_passes_over_calls(client):
    d = Debugger(client).attach()
    d.break_at(CELL, 6)
    m = client.start(CELL)
    d.event(m, "stopped")
    d.ask("next", threadId=1)
    d.event(m, "stopped")
    assert d.stack()[0]["line"] == 7
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    d.end()


def test_other_requests_while_halted(client):
    d = Debugger(client).attach()
    d.break_at(CELL, 2)
    m = client.start(CELL)
    d.event(m, "stopped")
    c = client.request("complete_request",
                       {"code": "string.re", "cursor_pos": 9}).content
    assert c["matches"]
    assert client.request("kernel_info_request", {}, "control").status == "ok"
    start = time.monotonic()
    client.send("interrupt_request", {}, "control")
    assert client.finish(m).content["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 1
    d.end()
    assert client.run("1").value() == "1"


def test_disconnecting_lets_go(client):
    d = Debugger(client).attach()
    d.break_at(CELL, 2)
    m = client.start(CELL)
    d.event(m, "stopped")
    d.end()
    assert client.finish(m).status == "ok"
    assert client.run(CELL).status == "ok"  # nothing halts any more


def test_breakpoints_in_coroutines_and_loops(client):
    code = """local co = coroutine.wrap(function()
  for i = 1, 3 do
    coroutine.yield(i)
  end
end)
co() co()"""
    d = Debugger(client).attach()
    d.break_at(code, 3)
    m = client.start(code)
    for i in ("1", "2"):
        d.event(m, "stopped")
        assert d.locals(d.stack()[0])["i"] == i
        d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    d.end()


def test_parts_of_tables(client):
    code = "local t = {10, 20, name = {deep = true}}\nreturn t"
    d = Debugger(client).attach()
    d.break_at(code, 2)
    m = client.start(code)
    d.event(m, "stopped")
    scopes = d.ask("scopes", frameId=d.stack()[0]["id"])["scopes"]
    found = {}
    for scope in scopes:
        for v in d.ask("variables", variablesReference=scope[
                "variablesReference"])["variables"]:
            found.setdefault(v["name"], v)
    parts = d.ask("variables", variablesReference=found["t"][
        "variablesReference"])["variables"]
    assert [p["name"] for p in parts] == ["[1]", "[2]", "name"]
    assert parts[0]["value"] == "10" and parts[0]["variablesReference"] == 0
    inner = d.ask("variables", variablesReference=parts[2][
        "variablesReference"])["variables"]
    assert inner[0]["name"] == "deep" and inner[0]["value"] == "true"
    d.ask("continue", threadId=1)
    client.finish(m)
    d.end()


def test_variables_without_a_session(fresh):
    """Also those made before the first request of a debugger."""
    k = fresh()
    with k.client() as client:
        look_at_variables(client)


def look_at_variables(client):
    client.run("panel = {1, 2}\nlocal cell_local = 'x'")
    d = Debugger(client)
    seen = {v["name"]: v for v in d.ask("inspectVariables")["variables"]}
    assert seen["panel"]["type"] == "table"
    assert seen["cell_local"]["value"] == '"x"'
    rich = d.ask("richInspectVariables", variableName="panel")
    assert "text/plain" in rich["data"]


def test_what_is_wrong_is_said(client):
    d = Debugger(client)
    assert "no such request: nonsense" in d.ask("nonsense", ok=False)
    assert "not halted" in d.ask("stackTrace", ok=False, threadId=1)
    d.ask("scopes", ok=False, frameId=99)
    d.ask("scopes", ok=False)
    d.ask("variables", ok=False, variablesReference=12345)
    d.ask("source", ok=False, source={"path": "/no/such"})
    d.ask("dumpCell", ok=False)
    d.ask("evaluate", ok=False, expression="1 +")
    d.ask("continue", ok=False, threadId=1)
    for content in ({}, {"command": 1}, {"command": "attach",
                                         "arguments": 3}):
        c = client.request("debug_request", content, "control").content
        assert c["type"] == "response"
    d.end()


def test_where_it_can_halt(client):
    code = "-- nothing\n\nlocal function f(a)\n  -- still\n  return a\nend\n" \
        "y = f(1)\n\n-- no more"
    d = Debugger(client).attach()
    path = d.ask("dumpCell", code=code)["sourcePath"]

    def set_at(*points, where=path):
        return d.ask("setBreakpoints", source={"path": where},
                     breakpoints=list(points))["breakpoints"]
    got = set_at({"line": 1}, {"line": 4}, {"line": 7}, {"line": 8},
                 {"line": 99})
    assert [(b["verified"], b["line"]) for b in got] == [
        (True, 3), (True, 5), (True, 7), (False, 8), (False, 99)], got
    assert "no line from 8 on has code" in got[3]["message"]
    assert [b["line"] for b in d.ask("debugInfo")["breakpoints"][0][
        "breakpoints"]] == [3, 5, 7]
    for bad, why in (({}, "has a line"), ({"line": 0}, "has a line"),
                     ({"line": 1.5}, "has a line"), (7, "has a line"),
                     ({"line": 1 << 62}, "no line from"),
                     ({"line": 5, "condition": "a +"}, "condition"),
                     ({"line": 5, "condition": 3}, "string"),
                     ({"line": 5, "hitCondition": "some"}, "number")):
        got = set_at(bad)
        assert got[0]["verified"] is False and why in got[0]["message"], got
    got = set_at({"line": 3}, where="/no/such/file.lua")
    assert got[0]["verified"] is False and "not known" in got[0]["message"]
    broken = d.ask("dumpCell", code="x = = 1")["sourcePath"]
    assert set_at({"line": 1}, where=broken)[0]["verified"] is False
    assert d.ask("setBreakpoints", source={"path": path})["breakpoints"] == []
    assert client.run(code).status == "ok"  # none is left
    d.end()


def test_a_cell_under_a_command(client):
    code = "%%time\n\nlocal n = 1\nn = n + 1"
    d = Debugger(client).attach()
    d.break_at(code, 4)
    m = client.start(code)
    d.event(m, "stopped")
    assert d.stack()[0]["line"] == 4
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    d.end()


LOOP = "total = 0\nfor i = 1, 10 do\n  total = total + i\nend\ntotal"


def stops(client, code, point):
    """Where a breakpoint with conditions halts in a loop: values of i."""
    d = Debugger(client).attach()
    path = d.ask("dumpCell", code=code)["sourcePath"]
    answer = d.ask("setBreakpoints", source={"path": path},
                   breakpoints=[dict(point, line=3)])["breakpoints"]
    assert answer[0]["verified"], answer
    m, seen = client.start(code), []
    while d.event(m, "stopped", ends=True):
        seen.append(int(d.locals(d.stack()[0])["i"]))
        d.ask("continue", threadId=1)
    assert client.run("total").value() == "55"
    d.end()
    return seen


def test_conditions(client):
    for point, want in (
            ({"condition": "i % 4 == 0"}, [4, 8]),
            ({"condition": "i > 3 and total < 20"}, [4, 5, 6]),
            ({"hitCondition": "3"}, [3]), ({"hitCondition": "== 10"}, [10]),
            ({"hitCondition": ">8"}, [9, 10]), ({"hitCondition": "%5"}, [5, 10]),
            ({"hitCondition": "<= 2"}, [1, 2]), ({"hitCondition": "%0"}, []),
            ({"condition": "i > 5", "hitCondition": "2"}, [7]),
            ({"condition": "false"}, []), ({"condition": "nobody"}, [])):
        assert stops(client, LOOP, point) == want, point


def test_a_condition_that_fails_halts_and_says_so(client):
    d = Debugger(client).attach()
    path = d.ask("dumpCell", code=LOOP)["sourcePath"]
    d.ask("setBreakpoints", source={"path": path}, breakpoints=[
        {"line": 3, "condition": "i.x.y == 1"}])
    m = client.start(LOOP)
    assert "i.x.y" in d.event(m, "stopped")["text"]
    d.end()
    client.finish(m)


def test_an_endless_condition_can_be_interrupted(client):
    d = Debugger(client).attach()
    path = d.ask("dumpCell", code=LOOP)["sourcePath"]
    d.ask("setBreakpoints", source={"path": path}, breakpoints=[
        {"line": 3, "condition": "(function() while true do end end)()"}])
    m = client.start(LOOP)
    time.sleep(0.3)
    assert d.ask("debugInfo")["stoppedThreads"] == []
    client.send("interrupt_request", {}, "control")
    assert client.finish(m).content["ename"] == "KeyboardInterrupt"
    d.end()
    assert client.run("1").value() == "1"


def test_messages(client):
    d = Debugger(client).attach()
    path = d.ask("dumpCell", code=LOOP)["sourcePath"]
    d.ask("setBreakpoints", source={"path": path}, breakpoints=[
        {"line": 3, "logMessage": "{i} of {total + 0} {nobody.x}",
         "condition": "i > 8"}])
    m = client.start(LOOP)
    said = [d.event(m, "output")["output"] for _ in range(2)]
    assert said[0].startswith("9 of 36 ") and said[1].startswith("10 of 45 ")
    assert "nil value" in said[0], said
    assert client.finish(m).status == "ok"
    d.end()


def test_pause(client):
    """Also of a loop that ran before the debugger came."""
    m = client.start("go = true\nwhile go do\n  turns = (turns or 0) + 1\nend")
    d = Debugger(client).attach()
    d.ask("pause", threadId=1)
    assert d.event(m, "stopped")["reason"] == "pause"
    assert d.stack()[0]["line"] in (2, 3)
    assert "already" in d.ask("pause", ok=False, threadId=1)
    d.ask("continue", threadId=1)
    d.ask("pause", threadId=1)
    d.event(m, "stopped")
    d.ask("evaluate", expression="go = false")
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    assert "no thread 9" in d.ask("pause", ok=False, threadId=9)
    d.end()
    assert "attach" in d.ask("pause", ok=False, threadId=1)


def test_a_breakpoint_while_the_cell_runs(client):
    code = "n = 0\nwhile n >= 0 do\n  n = n + 1\nend"
    m = client.start(code)
    d = Debugger(client).attach()
    d.break_at(code, 3)
    d.event(m, "stopped")
    d.ask("evaluate", expression="n = -5")
    d.end()
    assert client.finish(m).status == "ok"


FAILS = """local function inner(t)
  return t.missing.field
end
ok = pcall(inner, {})
local function outer(...)
  return inner(...) + 1
end
outer({name = 1})"""


def test_uncaught_errors(client):
    d = Debugger(client)
    filters = d.ask("initialize")["exceptionBreakpointFilters"]
    assert [f["filter"] for f in filters] == ["uncaught"]
    d.attach()
    got = d.ask("setExceptionBreakpoints", filters=["uncaught", "never"])
    assert [b["verified"] for b in got["breakpoints"]] == [True, False]
    m = client.start(FAILS)
    stopped = d.event(m, "stopped")
    assert stopped["reason"] == "exception" and "missing" in stopped["text"]
    assert [f["line"] for f in d.stack()] == [2, 6, 8]
    assert d.locals(d.stack()[0])["t"] == "{name = 1}"
    info = d.ask("exceptionInfo", threadId=1)
    assert "missing" in info["description"]
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "error"
    m = client.start("error(setmetatable({}, {__tostring = function() "
                     "return 'an object' end}))")
    assert d.event(m, "stopped")["text"] == "an object"
    client.send("interrupt_request", {}, "control")
    assert client.finish(m).status == "error"
    for code in ("pcall(error, 'x')", "os.exit(0)"):  # no halt
        client.run(code)
    # Too deep to look for who would catch it: no halt, yet the cell ends.
    assert client.run("local function f() return 1 + f() end f()"
                      ).status == "error"
    d.ask("setExceptionBreakpoints", filters=[])
    assert client.run(FAILS).status == "error"
    d.end()


def test_a_step_ends_with_its_cell(client):
    d = Debugger(client).attach()
    for command in ("next", "stepIn", "stepOut"):
        d.break_at(CELL, 7)
        m = client.start(CELL)
        d.event(m, "stopped")
        d.ask(command, threadId=1)
        assert client.finish(m).status == "ok"
        assert client.run("z = 1\nz").value() == "1"
    d.end()


def test_steps_leave_coroutines(client):
    code = """local co = coroutine.wrap(function()
  coroutine.yield(1)
  return 2
end)
a = co()
b = co()
c = 3"""
    d = Debugger(client).attach()
    d.break_at(code, 2)
    m = client.start(code)
    d.event(m, "stopped")
    for line in (6, 7):  # over the yield, then over the call
        d.ask("next", threadId=1)
        d.event(m, "stopped")
        assert d.stack()[0]["line"] == line
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    d.end()


def test_variables_can_be_set(client):
    code = """local up = 1
do
  local hidden = up
  function f(a)
    local t, none = {1, name = {x = 1}}, nil
    a = a + hidden
    return a, t, none
  end
end
got, t, none = f(1)
got"""
    d = Debugger(client).attach()
    d.break_at(code, 7)
    m = client.start(code)
    d.event(m, "stopped")
    frame = d.stack()[0]
    scopes = d.ask("scopes", frameId=frame["id"])["scopes"]
    of = [s["variablesReference"] for s in scopes]
    seen = {v["name"]: v for v in d.ask(
        "variables", variablesReference=of[0])["variables"]}
    assert seen["a"]["value"] == "2" and seen["none"]["value"] == "nil"
    assert seen["t"]["value"] == "{1, name = {...}}"

    def put(reference, name, value, want):
        got = d.ask("setVariable", variablesReference=reference, name=name,
                    value=value)
        assert got["value"] == want, got
    put(of[0], "a", "a * 10 + hidden", "21")
    put(of[0], "none", "'set'", '"set"')
    put(seen["t"]["variablesReference"], "[1]", "a", "21")
    put(of[1], "hidden", "5", "5")
    put(of[2], "up", "7", "7")
    assert "no variable" in d.ask(
        "setVariable", ok=False, variablesReference=of[0], name="zzz",
        value="1")
    d.ask("setVariable", ok=False, variablesReference=of[0], name="a",
          value="1 +")
    for code, want in (("a = a + 1", ""), ("a, hidden", "22\t5"),
                       ("none", '"set"'), ("t[1]", "21")):
        assert d.ask("evaluate", expression=code, context="repl",
                     frameId=frame["id"])["result"] == want, code
    d.ask("copyToGlobals", srcFrameId=frame["id"], srcVariableName="hidden",
          dstVariableName="copied")
    rich = d.ask("richInspectVariables", variableName="t.name",
                 frameId=frame["id"])
    assert "x" in rich["data"]["text/plain"]
    assert d.stack()[0]["id"] != frame["id"]  # what is shown may be old
    d.ask("scopes", frameId=frame["id"])      # yet the frame is the same
    d.ask("continue", threadId=1)
    assert client.finish(m).status == "ok"
    assert client.run("('%d %s %d %d %d'):format(got, none, t[1], up, copied)"
                      ).value() == '"22 set 21 7 5"'
    assert "any more" in d.ask("scopes", ok=False, frameId=frame["id"])
    assert "any more" in d.ask("variables", ok=False,
                               variablesReference=of[0])
    d.end()


def test_names_of_a_cell_are_its_locals(client):
    code = "local mine = 5\nothers = 6\nlocal last = mine"
    d = Debugger(client).attach()
    d.break_at(code, 3)
    m = client.start(code)
    d.event(m, "stopped")
    frame = d.stack()[0]
    assert frame["name"] == "cell" and d.locals(frame)["mine"] == "5"
    d.end()
    assert client.finish(m).status == "ok"


def test_large_tables_and_pages(client):
    client.run("big = {} for i = 1, 2000 do big[i] = i end "
               "odd = {['a b'] = {1}, [true] = 'x\\ny', [1.5] = {}}")
    d = Debugger(client)
    seen = {v["name"]: v for v in d.ask("inspectVariables")["variables"]}
    big = seen["big"]["variablesReference"]
    parts = d.ask("variables", variablesReference=big)["variables"]
    assert len(parts) == 501 and parts[500]["value"] == "1500 more"
    page = d.ask("variables", variablesReference=big, start=10,
                 count=2)["variables"]
    assert [p["name"] for p in page] == ["[11]", "[12]"]
    odd = d.ask("variables", variablesReference=seen["odd"][
        "variablesReference"])["variables"]
    assert {p["name"]: p["value"] for p in odd} == {
        "a b": "{1}", "[true]": '"x\\ny"', "[1.5]": "{}"}
    for p in odd:
        assert d.ask("evaluate", expression=p["evaluateName"])[
            "result"] == p["value"]


def test_types_are_kept_from_jupyterlab(client):
    """It shows them in place of the values."""
    d = Debugger(client)
    client.run("number = 1")

    def kind():
        return [v.get("type") for v in d.ask("inspectVariables")["variables"]
                if v["name"] == "number"]
    assert kind() == ["number"]
    d.ask("initialize", clientID="jupyterlab")
    assert kind() == [None]
    d.end()
    assert kind() == ["number"]


def test_it_has_started_with_initialize(client):
    d = Debugger(client)
    d.ask("initialize")
    assert d.ask("debugInfo")["isStarted"] is True
    d.end()
    assert d.ask("debugInfo")["isStarted"] is False


def test_files_of_require(fresh):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "steps.lua")
    with open(path, "w", encoding="utf-8") as f:
        f.write("local M = {}\nfunction M.twice(x)\n  return 2 * x\nend\n"
                "return M\n")
    k = fresh()
    with k.client() as c:
        c.run(f"package.path = {folder!r} .. '/?.lua'\n"
              "steps = require 'steps'")
        d = Debugger(c).attach()
        modules = d.ask("modules")["modules"]
        assert {"id": "steps", "name": "steps", "path": path} in modules
        assert "twice" in d.ask("source", source={"path": path})["content"]
        got = d.ask("setBreakpoints", source={"path": path},
                    breakpoints=[{"line": 2}])["breakpoints"]
        assert got[0]["verified"] and got[0]["line"] == 2, got
        d.ask("setBreakpoints", source={"path": path},
              breakpoints=[{"line": 3}])
        m = c.start("steps.twice(4)")
        d.event(m, "stopped")
        assert d.stack()[0]["source"]["path"] == path
        assert d.locals(d.stack()[0])["x"] == "4"
        d.ask("continue", threadId=1)
        assert c.finish(m).status == "ok"
    shutil.rmtree(folder)


def test_nonsense(client):
    """Arguments of wrong types, and requests out of place."""
    d = Debugger(client).attach()
    commands = ("setBreakpoints", "setExceptionBreakpoints", "source",
                "stackTrace", "scopes", "variables", "setVariable",
                "evaluate", "continue", "next", "stepIn", "stepOut", "pause",
                "dumpCell", "richInspectVariables", "copyToGlobals",
                "exceptionInfo")
    values = (None, True, -1, 1.5, 1e300, "x", [], {}, [[]])
    names = ("source", "breakpoints", "filters", "threadId", "frameId",
             "variablesReference", "expression", "code", "name", "value",
             "variableName", "srcFrameId", "srcVariableName",
             "dstVariableName", "start", "count")
    for command in commands:
        for value in values:
            d.seq += 1
            c = client.request("debug_request", {
                "type": "request", "seq": d.seq, "command": command,
                "arguments": {n: value for n in names}}, "control").content
            assert c["type"] == "response" and c["request_seq"] == d.seq
            if not c["success"]:
                assert c["message"] and c["body"]["error"]["format"]
                assert "debugger.lua" not in c["message"], c
                assert "attempt to" not in c["message"], c
    for arguments in (3, "x", True, None):
        for command in commands:
            client.request("debug_request", {
                "type": "request", "seq": 1, "command": command,
                "arguments": arguments}, "control")
    d.end()
    assert client.run("1").value() == "1"


def test_a_halted_cell_at_shutdown(fresh):
    k = fresh()
    with k.client() as c:
        d = Debugger(c).attach()
        d.break_at(CELL, 2)
        d.event(c.start(CELL), "stopped")
        c.send("shutdown_request", {"restart": False}, "control")
        assert k.wait(5) == 0
