"""Cells: counts, silence, expressions, what an error does to those behind."""


def test_the_order_of_messages(client):
    r = client.run("print(1)\nreturn 2")
    assert r.types() == ["execute_input", "stream", "execute_result"]
    r = client.run("print(1)\nerror 'x'", stop_on_error=False)
    assert r.types() == ["execute_input", "stream", "error"]
    assert r.content["status"] == "error"
    assert set(r.content) >= {"ename", "evalue", "traceback",
                              "execution_count"}


def test_the_count_is_the_same_everywhere(client):
    a = client.run("1")
    n = a.content["execution_count"]
    assert a.of("execute_input")[0]["execution_count"] == n
    assert a.of("execute_result")[0]["execution_count"] == n
    assert client.run("2").content["execution_count"] == n + 1


def test_an_error_counts(client):
    n = client.run("1").content["execution_count"]
    r = client.run("error 'x'")
    assert r.content["execution_count"] == n + 1
    r = client.run("syntax error here")
    assert r.status == "error" and r.content["execution_count"] == n + 2
    assert r.content["ename"] == "SyntaxError"


def test_store_history_false_does_not_count(client):
    n = client.run("1").content["execution_count"]
    assert client.run("2", store_history=False).content[
        "execution_count"] == n
    assert client.run("3").content["execution_count"] == n + 1


def test_silent(client):
    n = client.run("1").content["execution_count"]
    r = client.run("shh = 5; print 'out'; io.stderr:write 'err'; "
                   "os.execute 'echo child'; return 6", silent=True)
    assert r.status == "ok" and r.shown == [], r.shown
    assert client.run("shh").value() == "5"
    assert client.run("1").content["execution_count"] == n + 2


def test_a_silent_error_shows_nothing_and_stops_nothing(client):
    ids = [client.start("error 'x'", silent=True), client.start("7")]
    a, b = (client.finish(i) for i in ids)
    assert a.status == "error" and a.shown == []
    assert b.status == "ok" and b.value() == "7"


def test_user_expressions(client):
    r = client.run("a = 4", user_expressions={
        "good": "a + 1", "bad": "a .. {}", "no": "a +"})
    e = r.content["user_expressions"]
    assert e["good"]["status"] == "ok"
    assert e["good"]["data"]["text/plain"] == "5"
    assert e["good"]["metadata"] == {}
    for name in ("bad", "no"):
        assert e[name]["status"] == "error"
        assert set(e[name]) >= {"ename", "evalue", "traceback"}
    assert client.run("1").content["user_expressions"] == {}


def test_user_expressions_of_a_failed_cell(client):
    r = client.run("error 'x'", user_expressions={"a": "1"})
    assert r.content.get("user_expressions", {}) == {}


def test_stop_on_error_refuses_what_waits(client):
    ids = [client.start("local t = os.clock()\n"
                        "while os.clock() - t < 0.1 do end\nerror 'x'")]
    ids += [client.start(f"ran{i} = true") for i in range(5)]
    results = [client.finish(i) for i in ids]
    n = results[0].content["execution_count"]
    for r in results[1:]:
        c = r.content
        assert c["status"] == "error" and c["ename"] == "Aborted", c
        assert c["traceback"] == [] or isinstance(c["traceback"][0], str)
        assert c["execution_count"] == n
        assert r.shown == []
    assert client.run("ran0 == nil and ran4 == nil").value() == "true"


def test_stop_on_error_false(client):
    ids = [client.start("error 'x'", stop_on_error=False)]
    ids += [client.start(f"{i}") for i in range(5)]
    results = [client.finish(i) for i in ids]
    assert [r.status for r in results] == ["error"] + ["ok"] * 5
    assert [r.value() for r in results[1:]] == list("01234")


def test_only_cells_are_refused(client):
    first = client.start("local t = os.clock()\n"
                         "while os.clock() - t < 0.1 do end\nerror 'x'")
    cell = client.start("1")
    complete = client.send("complete_request",
                           {"code": "string.re", "cursor_pos": 9})
    info = client.send("kernel_info_request", {})
    replies = {}
    while len(replies) < 4:
        m = client.get()
        replies[m["parent_header"]["msg_id"]] = m["content"]
    assert replies[first]["ename"] == "Error"
    assert replies[cell]["ename"] == "Aborted"
    assert replies[complete]["matches"]
    assert replies[info]["status"] == "ok"
    assert client.run("1").value() == "1"


def test_a_cell_sent_after_an_error_runs(client):
    client.run("error 'x'")
    assert client.run("8").value() == "8"


def test_a_later_error_refuses_only_its_own(client):
    late = "local t = os.clock()\nwhile os.clock() - t < 0.1 do end\nerror 'x'"
    ids = [client.start(c) for c in ("1", late, "2")]
    a, b, c = (client.finish(i) for i in ids)
    assert (a.status, b.status, c.status) == ("ok", "error", "error")
    assert c.content["ename"] == "Aborted"


def test_started_is_in_the_metadata(client):
    assert client.run("1").reply["metadata"]["started"]


def test_empty_cells(client):
    for code in ("", " \n\t", "-- a comment"):
        r = client.run(code)
        assert r.status == "ok" and "execute_result" not in r.types()


def test_variables_stay(client):
    client.run("local kept = 3\nglobal = 4")
    assert client.run("kept + global").value() == "7"


def test_os_exit_ends_the_cell_only(client, kernel):
    r = client.run("os.exit(0)")
    assert r.content["ename"] == "SystemExit" and r.content["evalue"] == "0"
    assert client.run("1").value() == "1" and kernel.alive()


def test_errors_of_every_kind(client):
    for code in ("error()", "error(nil)", "error {}", "error(42)",
                 "error(print)", "error(true)",
                 "error(setmetatable({}, {__tostring = function() return 'T' "
                 "end}))",
                 "error(setmetatable({}, {__tostring = function() error 'y' "
                 "end}))",
                 "error(setmetatable({}, {__tostring = function() return 1 "
                 "end}))",
                 "local x <close> = setmetatable({}, {__close = function() "
                 "error 'in close' end})",
                 "return setmetatable({}, {__tostring = function() error 'z' "
                 "end})", "error(coroutine.create(print))",
                 "string.rep('x', -1)()", "local t <const> = {}; t.x.y = 1"):
        r = client.run(code)
        assert r.status in ("ok", "error"), code
        if r.status == "error":
            assert isinstance(r.content["evalue"], str), code
            assert isinstance(r.content["ename"], str), code
            assert len(r.of("error")) == 1, code
    assert client.run("1").value() == "1"


def test_an_error_in_gc(client):
    r = client.run("setmetatable({}, {__gc = function() error 'in gc' end})\n"
                   "collectgarbage()\nreturn 5")
    assert r.status == "ok" and r.value() == "5"


def test_deep_recursion_is_an_error(client):
    r = client.run("local function f() return 1 + f() end\nf()")
    assert r.status == "error" and "overflow" in r.content["evalue"]
    r = client.run("local function f() return f() end\n"
                   "local t = setmetatable({}, {__index = function(t, k) "
                   "return t[k] end})\nreturn t.x")
    assert r.status == "error"
    assert client.run("1").value() == "1"


def test_kernel_info(client):
    for channel in ("shell", "control"):
        c = client.request("kernel_info_request", {}, channel).content
        assert c["status"] == "ok" and c["protocol_version"] == "5.5"
        assert c["implementation"] == "tide"
        i = c["language_info"]
        assert i["name"] == "lua" and i["mimetype"] == "text/x-lua"
        assert i["file_extension"] == ".lua"
        assert i["pygments_lexer"] == i["codemirror_mode"] == "lua"
        assert "kernel subshells" in c["supported_features"]
        assert all(set(h) == {"text", "url"} for h in c["help_links"])


def test_usage(client, kernel):
    c = client.request("usage_request", {}, "control").content
    assert c["pid"] == kernel.process.pid and c["hostname"]
    assert 1 << 20 < c["kernel_memory"] < 1 << 30
    assert c["cpu_count"] >= 1 and c["kernel_cpu"] >= 0
    assert c["host_virtual_memory"]["total"] > c["kernel_memory"]


def test_history(client):
    client.run("marker_one = 1")
    client.run("marker_one")
    for access in ({"hist_access_type": "tail", "n": 2},
                   {"hist_access_type": "search", "n": 5,
                    "pattern": "marker*"}):
        c = client.request("history_request", {
            "output": False, "raw": True, **access}).content
        assert c["status"] == "ok"
        assert [h[2] for h in c["history"]][-2:] == ["marker_one = 1",
                                                     "marker_one"]


def test_history_while_a_cell_runs(client):
    client.run("marker_two = 1")
    m = client.start_running("io.read()", allow_stdin=True)
    c = client.request("history_request", {
        "output": False, "raw": True, "hist_access_type": "tail",
        "n": 2}).content
    assert [h[2] for h in c["history"]][0] == "marker_two = 1"
    client.answer("")
    client.finish(m)


def test_empty_tables_in_json(client):
    r = client.run("return {}")
    assert r.content["user_expressions"] == {} and r.content["payload"] == []
    assert r.of("execute_result")[0]["metadata"] == {}
    c = client.request("complete_request",
                       {"code": "nothing_such_", "cursor_pos": 13}).content
    assert c["matches"] == [] and c["metadata"] == {} or \
        c["metadata"] == {"_jupyter_types_experimental": []}
    c = client.request("history_request", {
        "output": False, "raw": True, "hist_access_type": "search",
        "pattern": "no such text", "n": 3}).content
    assert c["history"] == []
    r = client.run("nothing_such_.x")
    assert isinstance(r.content["traceback"], list)
    c = client.request("inspect_request", {
        "code": "nothing_such_", "cursor_pos": 3, "detail_level": 0}).content
    assert c["found"] is False and c["data"] == {} and c["metadata"] == {}
