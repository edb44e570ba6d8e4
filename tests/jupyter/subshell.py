"""Subshells: lines of their own beside the first."""
import os
import tempfile
import time


def create(client):
    c = client.request("create_subshell_request", {}, "control").content
    assert c["status"] == "ok", c
    return c["subshell_id"]


def delete(client, s):
    return client.request("delete_subshell_request", {"subshell_id": s},
                          "control").content


def listed(client):
    c = client.request("list_subshell_request", {}, "control").content
    assert c["status"] == "ok"
    return c["subshell_id"]


def test_create_list_delete(client):
    assert listed(client) == []
    a, b = create(client), create(client)
    assert sorted(listed(client)) == sorted([a, b])
    assert delete(client, a)["status"] == "ok"
    assert listed(client) == [b]
    assert delete(client, a)["status"] == "error"
    assert delete(client, b)["status"] == "ok"
    assert listed(client) == []


def test_it_runs_beside_a_cell(client):
    s = create(client)
    m = client.start_running("while not done do end\nreturn 'seen'")
    r = client.run("done = true\nreturn 5", subshell=s)
    assert r.value() == "5"
    assert r.reply["parent_header"]["subshell_id"] == s
    assert client.finish(m).value() == '"seen"'
    client.run("done = nil")
    delete(client, s)


def test_it_counts_for_itself(client):
    s = create(client)
    n = client.run("1").content["execution_count"]
    assert client.run("1", subshell=s).content["execution_count"] == 1
    assert client.run("1", subshell=s).content["execution_count"] == 2
    assert client.run("1").content["execution_count"] == n + 1
    delete(client, s)


def test_variables_are_shared(client):
    s = create(client)
    client.run("shared = 1")
    assert client.run("shared = shared + 1; return shared",
                      subshell=s).value() == "2"
    assert client.run("shared").value() == "2"
    delete(client, s)


def test_an_error_refuses_only_its_own(client):
    s = create(client)
    ids = [client.start("local t = os.clock()\n"
                        "while os.clock() - t < 0.1 do end\nerror 'x'",
                        subshell=s),
           client.start("1", subshell=s), client.start("2")]
    a, b, c = (client.finish(i) for i in sorted(ids, key=ids.index))
    assert a.content["ename"] == "Error"
    assert b.content["ename"] == "Aborted"
    assert c.value() == "2"
    delete(client, s)


def test_output_goes_to_its_own_request(client):
    s = create(client)
    a = client.start("for i = 1, 200 do print 'main' end")
    b = client.start("for i = 1, 200 do print 'sub' end", subshell=s)
    shown, idle = {a: "", b: ""}, set()
    while idle < {a, b}:
        m = client.get("iopub")
        of = m["parent_header"].get("msg_id")
        if m["msg_type"] == "stream":
            shown[of] += m["content"]["text"]
        if m["content"].get("execution_state") == "idle":
            idle.add(of)
    assert shown == {a: "main\n" * 200, b: "sub\n" * 200}
    delete(client, s)


def test_interrupts_go_to_all(client):
    s = create(client)
    a = client.start_running("while true do end")
    b = client.start("while true do end", subshell=s)
    time.sleep(0.2)
    start = time.monotonic()
    client.send("interrupt_request", {}, "control")
    replies = [client.get(), client.get()]
    assert time.monotonic() - start < 1
    assert {m["parent_header"]["msg_id"] for m in replies} == {a, b}
    assert {m["content"]["ename"] for m in replies} == {"KeyboardInterrupt"}
    assert client.run("1", subshell=s).value() == "1"
    delete(client, s)


def test_one_that_is_not_there(client):
    r = client.run("1", subshell="none")
    assert r.status == "error" and r.content["ename"] == "SubshellError"
    c = client.request("kernel_info_request", {}, subshell="none").content
    assert c["status"] == "error"
    for content in ({}, {"subshell_id": 1}, {"subshell_id": None}):
        c = client.request("delete_subshell_request", content,
                           "control").content
        assert c["status"] == "error"


def test_deleting_a_busy_one_ends_it(client):
    s = create(client)
    m = client.start("while true do end", subshell=s)
    time.sleep(0.2)
    start = time.monotonic()
    assert delete(client, s)["status"] == "ok"
    r = client.finish(m)
    assert r.content["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 1
    assert client.run("1").value() == "1"


def test_other_requests(client):
    s = create(client)
    client.run("subject = 1", subshell=s)
    c = client.request("complete_request", {"code": "subj", "cursor_pos": 4},
                       subshell=s).content
    assert "subject" in c["matches"]
    c = client.request("kernel_info_request", {}, subshell=s).content
    assert c["status"] == "ok"
    c = client.request("history_request", {
        "output": False, "raw": True, "hist_access_type": "tail", "n": 3},
        subshell=s).content
    assert c["status"] == "ok"
    delete(client, s)


def test_many_come_and_go(client, kernel):
    for _ in range(20):
        client.run("1", subshell=delete_later(client))
    assert listed(client) == []
    shells = [create(client) for _ in range(64)]
    c = client.request("create_subshell_request", {}, "control").content
    assert c["status"] == "error" and "64" in c["evalue"]
    for s in shells:
        assert delete(client, s)["status"] == "ok"
    assert kernel.alive()


def delete_later(client):
    s = create(client)
    client.send("delete_subshell_request", {"subshell_id": s}, "control")
    client.get("control")
    return s if s in listed(client) else create_and_use(client)


def create_and_use(client):
    s = create(client)
    client.run("1", subshell=s)
    delete(client, s)
    return None


def test_input_in_a_subshell(client):
    s = create(client)
    m = client.start("return io.read()", allow_stdin=True, subshell=s)
    client.answer("sub")
    assert client.finish(m).value() == '"sub"'
    delete(client, s)


def test_what_another_line_is_at(client):
    with tempfile.TemporaryDirectory() as folder:
        pipe = folder + "/pipe"
        os.mkfifo(pipe)
        writer = os.open(pipe, os.O_RDWR)
        s = create(client)
        client.run(f"r = require 'tide.core'.records('{pipe}', '', 0, 0)")
        m = client.start_running("(r:next())")
        for what in "r:close()", "r:next()":
            e = client.run(what, subshell=s).content
            assert "the file is in use by another line" in e["evalue"], e
        os.close(writer)
        assert client.finish(m).status == "ok"
        assert client.run("r:close()").status == "ok"
        delete(client, s)
