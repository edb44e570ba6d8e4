"""Questions to the user: input in every form, its end, and its absence."""
import time


def ask(client, code, *answers):
    m = client.start(code, allow_stdin=True)
    for a in answers:
        client.answer(a)
    return client.finish(m)


def test_without_stdin_it_is_an_error(client):
    start = time.monotonic()
    r = client.run("return io.read()", allow_stdin=False)
    assert time.monotonic() - start < 5
    assert r.status == "error" or r.value() == "nil", r.content


def test_a_line(client):
    assert ask(client, "return io.read()", "hällo").value() == '"hällo"'
    assert ask(client, "return io.read() == ''", "").value() == "true"


def test_the_request_is_of_the_cell(client):
    m = client.start("return io.read()", allow_stdin=True)
    asked = client.answer("x")
    assert asked["parent_header"]["msg_id"] == m
    assert asked["content"] == {"prompt": "", "password": False}
    client.finish(m)


def test_output_comes_before_the_question(client):
    m = client.start("io.write 'name? '; return io.read()", allow_stdin=True)
    asked = client.get("stdin")
    seen = []
    while client.iopub.poll(200):
        seen.append(client.get("iopub"))
    assert "name? " in "".join(s["content"].get("text", "") for s in seen
                               if s["msg_type"] == "stream")
    reply = client.session.msg("input_reply", {"value": "x"},
                               parent=asked["header"])
    client.session.send(client.stdin, reply)
    client.reply_to(m)


def test_prompt_and_password(client):
    m = client.start("return require('tide').input('who? ')",
                     allow_stdin=True)
    asked = client.answer("me")
    assert asked["content"] == {"prompt": "who? ", "password": False}
    assert client.finish(m).value() == '"me"'
    m = client.start("return require('tide').getpass('key? ')", allow_stdin=True)
    asked = client.answer("secret")
    assert asked["content"] == {"prompt": "key? ", "password": True}
    assert client.finish(m).value() == '"secret"'


def test_every_format_of_read(client):
    assert ask(client, "return io.read('l')", "a b").value() == '"a b"'
    assert ask(client, "return #io.read('L')", "a b").value() == "4"
    r = ask(client, "return io.read('n') + 1, io.read('l')", "41")
    assert r.value() == '42\t""', r.value()
    r = ask(client, "return io.read(3), io.read('l')", "abcd")
    assert r.value() == '"abc"\t"d"', r.value()
    r = ask(client, "return (io.read('a'):gsub('\\n', '|'))", "of", "it",
            "\x04")
    assert r.value() == '"of|it|"', r.value()
    r = ask(client, "local a, b, c = io.read('n', 'n', 'L')\n"
            "return a + b, c == '\\n'", "1 2")
    assert r.value() == "3\ttrue", r.value()
    r = ask(client, "return io.read(0)", "\x04")
    assert r.value() == "nil", r.value()


def test_lines(client):
    r = ask(client, "io.read()\nlocal t = {}\n"
            "for l in io.lines() do t[#t + 1] = l end\n"
            "return table.concat(t, '|')", "", "a", "b", "c", "\x04")
    assert r.value() == '"a|b|c"', r.value()


def test_the_end_of_input(client):
    assert ask(client, "return io.read()", "\x04").value() == "nil"
    assert ask(client, "return io.read()", "again").value() == '"again"'


def test_interrupt_while_input_is_awaited(client):
    m = client.start("return io.read()", allow_stdin=True)
    client.get("stdin")
    start = time.monotonic()
    client.interrupt()
    r = client.finish(m)
    assert time.monotonic() - start < 1
    assert r.content["ename"] == "KeyboardInterrupt"
    assert ask(client, "return io.read()", "fine").value() == '"fine"'


def test_a_late_answer_is_dropped(client):
    m = client.start("return io.read()", allow_stdin=True)
    asked = client.get("stdin")
    client.interrupt()
    client.finish(m)
    late = client.session.msg("input_reply", {"value": "late"},
                              parent=asked["header"])
    client.session.send(client.stdin, late)
    assert ask(client, "return io.read()", "new").value() == '"new"'


def test_shutdown_while_input_is_awaited(fresh):
    k = fresh()
    with k.client() as c:
        c.start("return io.read()", allow_stdin=True)
        c.get("stdin")
        start = time.monotonic()
        c.send("shutdown_request", {"restart": False}, "control")
        assert c.get("control")["msg_type"] == "shutdown_reply"
        assert k.wait() == 0 and time.monotonic() - start < 2


def test_other_requests_are_answered_meanwhile(client):
    m = client.start("return io.read()", allow_stdin=True)
    asked = client.get("stdin")
    c = client.request("complete_request",
                       {"code": "string.re", "cursor_pos": 9}).content
    assert c["status"] == "ok" and c["matches"]
    client.session.send(client.stdin, client.session.msg(
        "input_reply", {"value": "x"}, parent=asked["header"]))
    assert client.finish(m).value() == '"x"'


def test_answers_of_strange_shape(client):
    for content in ({}, {"value": 1}, {"value": None}):
        m = client.start("return io.read()", allow_stdin=True)
        asked = client.get("stdin")
        client.session.send(client.stdin, client.session.msg(
            "input_reply", content, parent=asked["header"]))
        assert client.finish(m).value() == '""'


def test_a_client_without_a_stdin_socket(kernel):
    with kernel.client(channels=("shell", "control", "iopub")) as c:
        r = c.run("return io.read()", allow_stdin=True)
        assert r.status == "error" or r.value() == "nil"
