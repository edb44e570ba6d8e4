"""The Debug Adapter Protocol: halts, steps, stacks, variables."""
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

    def event(self, of, name):
        """The next such event of a cell."""
        until = time.monotonic() + 10
        while True:
            m = self.client.next_of(of, "iopub", until)
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


def test_variables_without_a_session(client):
    client.run("panel = {1, 2}\nlocal cell_local = 'x'")
    d = Debugger(client)
    seen = {v["name"]: v for v in d.ask("inspectVariables")["variables"]}
    assert seen["panel"]["type"] == "table"
    assert seen["cell_local"]["value"] == '"x"'
    rich = d.ask("richInspectVariables", variableName="panel")
    assert "text/plain" in rich["data"]


def test_what_is_wrong_is_said(client):
    d = Debugger(client)
    assert "no such request" in d.ask("nonsense", ok=False)
    assert "runs" in d.ask("stackTrace", ok=False, threadId=1)
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


def test_a_halted_cell_at_shutdown(fresh):
    k = fresh()
    with k.client() as c:
        d = Debugger(c).attach()
        d.break_at(CELL, 2)
        d.event(c.start(CELL), "stopped")
        c.send("shutdown_request", {"restart": False}, "control")
        assert k.wait(5) == 0
