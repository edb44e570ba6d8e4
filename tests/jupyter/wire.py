"""Frames, signatures, JSON: what is no message of a client is dropped; what is
one and cannot be read is answered or told; the kernel lives."""
import hashlib
import hmac
import json
import os
import random
import secrets

from kernel import Client, Kernel

SOAK = bool(os.environ.get("TIDE_SOAK"))


def still_answers(client):
    assert client.run("1 + 1").value() == "2"


def unanswered(client, channel="shell", ms=100):
    assert not getattr(client, channel).poll(ms), client.get(channel)


def signed(client, parts, key=None):
    """Frames of four JSON parts (bytes), signed."""
    key = key if key is not None else client.session.key
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for p in parts:
        mac.update(p)
    return [b"<IDS|MSG>", mac.hexdigest().encode(), *parts]


def header(msg_type="kernel_info_request", **more):
    h = {"msg_id": secrets.token_hex(8), "session": "s", "username": "u",
         "date": "2020-01-01T00:00:00.000000Z", "msg_type": msg_type,
         "version": "5.3", **more}
    return json.dumps(h).encode()


def test_a_wrong_signature_is_dropped(client):
    frames = client.frames("kernel_info_request", {})
    frames[1] = b"0" * 64
    client.shell.send_multipart(frames)
    client.control.send_multipart(frames)
    unanswered(client)
    unanswered(client, "control")
    still_answers(client)


def test_a_missing_signature_is_dropped(client):
    frames = client.frames("kernel_info_request", {})
    for signature in (b"", b"0", frames[1][:-1], frames[1] + b"0",
                      frames[1].upper() + b"\0"):
        frames[1] = signature
        client.shell.send_multipart(frames)
    unanswered(client)
    still_answers(client)


def test_a_signature_by_another_key_is_dropped(client):
    frames = signed(client, [header(), b"{}", b"{}", b"{}"], b"another")
    client.shell.send_multipart(frames)
    unanswered(client)
    still_answers(client)


def test_a_message_is_taken_once(client):
    frames = client.frames("kernel_info_request", {})
    client.shell.send_multipart(frames)
    assert client.get()["msg_type"] == "kernel_info_reply"
    client.shell.send_multipart(frames)
    client.control.send_multipart(frames)
    unanswered(client)
    unanswered(client, "control")
    still_answers(client)


def test_what_was_signed_and_changed_is_dropped(client):
    for part in range(2, 6):
        frames = client.frames("kernel_info_request", {})
        frames[part] = frames[part].replace(b"{", b"{ ", 1)
        client.shell.send_multipart(frames)
    unanswered(client)
    still_answers(client)


def test_buffers_are_not_signed(client):
    frames = client.frames("kernel_info_request", {})
    client.shell.send_multipart([*frames, b"\0\1\2", b"more"])
    assert client.get()["msg_type"] == "kernel_info_reply"


def test_an_empty_key_is_refused(fresh):
    k = fresh(key="")
    assert k.wait() == 1
    assert "no key" in k.said() and "--allow-no-key" in k.said()


def test_an_empty_key_when_asked_for(fresh):
    k = fresh(key="", options=["--allow-no-key"])
    with k.client() as c:
        still_answers(c)
        frames = c.frames("kernel_info_request", {})
        assert frames[1] == b""
        c.shell.send_multipart(frames)
        assert c.get()["msg_type"] == "kernel_info_reply"


def test_sha512(fresh):
    k = fresh(signature_scheme="hmac-sha512")
    with k.client() as c:
        still_answers(c)
        frames = signed(c, [header(), b"{}", b"{}", b"{}"])
        c.shell.send_multipart(frames)
        unanswered(c)


def test_an_unknown_scheme_is_refused(fresh):
    k = fresh(signature_scheme="hmac-md5")
    assert k.wait() == 1
    assert "hmac-sha256 or hmac-sha512" in k.said()


def test_connection_files_that_are_none(fresh):
    for text, said in (("{", "not a JSON object"), ("[]", "not a JSON object"),
                       ('{"shell_port": "x"}', "port"),
                       ('{"shell_port": 70000}', "port"),
                       ('{"transport": "udp"}', "tcp or ipc")):
        k = fresh(start=False)
        k.write = lambda k=k, text=text: open(k.file, "w",
                                              encoding="utf-8").write(text)
        k.start()
        assert k.wait() == 1 and said in k.said(), (text, k.said())


def test_ports_as_strings(fresh):
    k = fresh(start=False)
    for name in list(k.connection):
        if name.endswith("_port"):
            k.connection[name] = str(k.connection[name])
    k.start()
    with k.client() as c:
        still_answers(c)


def test_ports_in_use_are_named(fresh):
    a = fresh()
    with a.client() as c:
        still_answers(c)
        b = fresh(start=False)
        b.connection["shell_port"] = a.connection["shell_port"]
        b.start()
        assert b.wait() == 1
        assert f"tcp://127.0.0.1:{a.connection['shell_port']}" in b.said()


def test_the_scheme_may_be_missing(fresh):
    k = fresh(start=False)
    del k.connection["signature_scheme"]
    k.write()
    k.connection["signature_scheme"] = "hmac-sha256"
    k.write = lambda: None
    k.start()
    with k.client() as c:
        still_answers(c)


UNREADABLE = [b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b"{}{}",
              b"[" * 100000, b'{"a": NaN}', b'{"a": Infinity}',
              b'{"a": 1e400}', b'{"a": "\\ud800"}', b'{"a": "\xff"}',
              b'{"a\\u0000": 1}', b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b"}",
              b'{"a": 1' + b"0" * 400 + b"}", b'{"a": 01}', b'{"a": "\n"}']
NAMES = ("header", "parent header", "metadata", "content")
# JSON bounds no number: JavaScript writes 1e20 as 100000000000000000000.
NUMBERS = ["9223372036854775807", "9223372036854775808", "-1e20", "1e20",
           "123456789012345678901234567890", "1e300", "-1e300", "1e-300",
           "1e-999", "-0", "0.5", "2.0"]


def send(client, channel, parts):
    getattr(client, channel).send_multipart(signed(client, parts))


def told(client, *texts):
    """Waits until those who watch have read them."""
    seen = ""
    while not all(text in seen for text in texts):
        m = client.get("iopub")
        if m["msg_type"] == "stream":
            seen += m["content"]["text"]


def test_a_header_that_cannot_be_read_is_told(client):
    for channel in ("shell", "control"):
        for text in [*UNREADABLE, b"{}", b'{"msg_type": 1}',
                     b'{"msg_type": ""}', b'{"msg_type": 1e300}']:
            send(client, channel, [text, b"{}", b"{}", header()])
        told(client, "[the header of a message is no JSON object]",
             "has no msg_type]", "cannot be read: unable to decode")
        unanswered(client, channel)
    still_answers(client)


def test_parts_that_cannot_be_read_get_an_error_reply(client):
    types = [("shell", t) for t in (
        "kernel_info", "execute", "complete", "inspect", "is_complete",
        "history", "comm_info")]
    types += [("control", t) for t in (
        "kernel_info", "usage", "interrupt", "debug", "shutdown",
        "create_subshell", "delete_subshell", "list_subshell")]
    for k, (channel, msg_type) in enumerate(types):
        for part in (1, 2, 3):
            for text in UNREADABLE[(k + part) % 2::2]:
                parts = [header(msg_type + "_request"), b"{}", b"{}", b"{}"]
                parts[part] = text
                send(client, channel, parts)
                reply = client.get(channel)
                assert reply["msg_type"] == msg_type + "_reply", reply
                c = reply["content"]
                assert c["status"] == "error", (msg_type, text, c)
                assert f"the {NAMES[part]} of a message" in c["evalue"], c
    still_answers(client)


def test_a_comm_message_that_cannot_be_read_is_told(client):
    for msg_type in ("comm_open", "comm_msg", "comm_close"):
        for text in UNREADABLE[::3]:
            send(client, "shell", [header(msg_type), b"{}", b"{}", text])
            told(client, f"[{msg_type}: the content of a message")
    still_answers(client)


def test_an_answer_that_cannot_be_read_ends_the_question(client):
    for text in (b'{"value": "\xff"}', b'{"value": NaN}', b"["):
        msg_id = client.start("print(io.read())", allow_stdin=True)
        client.get("stdin")
        send(client, "stdin", [header("input_reply"), b"{}", b"{}", text])
        client.reply_to(msg_id)
    still_answers(client)


def fields(n):
    """Requests with that number in each member that a request has."""
    request = '"type": "request", "seq": 1, "command"'
    history = (f'"output": {n}, "raw": {n}, "pattern": {n}, "unique": {n}, '
               f'"before": {n}, "n": {n}, "start": {n}, "stop": {n}, '
               f'"session": {n}')
    rows = [
        ("shell", "kernel_info", f'"x": {n}'),
        ("shell", "execute",
         f'"code": "return 7", "silent": {n}, "store_history": {n}, '
         f'"allow_stdin": {n}, "stop_on_error": {n}, '
         f'"user_expressions": {{"a": {n}}}'),
        ("shell", "execute", f'"code": {n}'),
        ("shell", "execute", f'"code": "7", "user_expressions": {n}'),
        ("shell", "complete", f'"code": "pri", "cursor_pos": {n}'),
        ("shell", "complete", f'"code": {n}, "cursor_pos": 1'),
        ("shell", "inspect",
         f'"code": "print", "cursor_pos": {n}, "detail_level": {n}'),
        ("shell", "inspect", f'"code": {n}, "cursor_pos": 2'),
        ("shell", "is_complete", f'"code": {n}'),
        ("shell", "comm_info", f'"target_name": {n}'),
        ("control", "debug",
         f'"type": "request", "command": "debugInfo", "seq": {n}'),
        ("control", "debug",
         f'{request}: "stackTrace", "arguments": {{"threadId": {n}, '
         f'"startFrame": {n}, "levels": {n}}}'),
        ("control", "debug",
         f'{request}: "variables", "arguments": {{"variablesReference": {n}, '
         f'"start": {n}}}'),
        ("control", "debug",
         f'{request}: "setBreakpoints", "arguments": {{"source": '
         f'{{"path": "x"}}, "breakpoints": [{{"line": {n}}}]}}'),
        ("control", "debug", f'"type": {n}, "command": {n}, "seq": {n}'),
        ("control", "usage", f'"x": {n}'),
        ("control", "interrupt", f'"x": [{n}, {{"y": {n}}}]'),
        ("control", "delete_subshell", f'"subshell_id": {n}'),
        ("control", "list_subshell", f'"x": {n}')]
    rows += [("shell", "history", f'"hist_access_type": {kind}, {history}')
             for kind in ('"tail"', '"range"', '"search"', n)]
    return rows


def test_any_number_in_any_field(client):
    for number in NUMBERS:
        odd = f'{{"x": {number}, "x": {number}}}'.encode()
        for channel, msg_type, content in fields(number):
            h = json.loads(header(msg_type + "_request"))
            h = json.dumps({**h, "date": "@", "session": "@", "version": "@"})
            h = h.replace('"@"', number).encode()
            send(client, channel, [h, odd, odd, f"{{{content}}}".encode()])
            reply = client.get(channel)
            assert reply["msg_type"] == msg_type + "_reply", reply
            assert reply["content"], reply
        for msg_type in ("comm_open", "comm_msg", "comm_close"):
            text = f'{{"comm_id": {number}, "target_name": {number}, ' \
                   f'"data": {number}}}'
            send(client, "shell", [header(msg_type), odd, odd, text.encode()])
        send(client, "shell", [header("no_such"), odd, odd, odd])
        still_answers(client)


def test_cursors_are_read_as_numbers(client):
    def at(pos):
        c = client.request("complete_request",
                           {"code": "io.wri", "cursor_pos": pos}).content
        return c["cursor_start"], c["cursor_end"]

    assert at(6) == at(6.0) == at(6.5) == at(1e20) == at(10 ** 30) == (3, 6)
    assert at(0) == at(-1) == at(-1e20) == at(-10 ** 30) == (0, 0)


def test_frames_of_no_message(client):
    s = client.frames("kernel_info_request", {})
    for frames in ([b""], [b"<IDS|MSG>"], s[:2], s[:5], s[1:], [b"x"] * 7,
                   [b"<IDS|MSG>"] * 3, [b"x"] * 2000):
        client.shell.send_multipart(frames)
        client.control.send_multipart(frames)
        client.stdin.send_multipart(frames)
    unanswered(client)
    still_answers(client)


def test_two_identities_come_back(client):
    frames = client.frames("kernel_info_request", {})
    client.shell.send_multipart([b"first", b"second", *frames])
    assert client.shell.poll(5000)
    got = client.shell.recv_multipart()
    assert got[:3] == [b"first", b"second", b"<IDS|MSG>"], got[:3]


def test_no_identity_of_its_own(client):
    frames = client.frames("kernel_info_request", {})
    client.shell.send_multipart(frames)
    assert client.shell.poll(5000)
    assert client.shell.recv_multipart()[0] == b"<IDS|MSG>"


def test_the_parent_is_the_whole_header(client):
    parts = [header(subshell_id=None, own={"x": [1, "ä"]}), b"{}", b"{}",
             b"{}"]
    client.shell.send_multipart(signed(client, parts))
    reply = client.get()
    assert reply["parent_header"]["own"] == {"x": [1, "ä"]}


def test_header_fields_of_what_is_sent(client):
    r = client.run("print(1)")
    for m in [r.reply, *r.shown]:
        h = m["header"]
        assert set(h) >= {"msg_id", "session", "username", "date", "msg_type",
                          "version"}
        assert h["version"] == "5.5"
    ids = [m["header"]["msg_id"] for m in [r.reply, *r.shown]]
    assert len(set(ids)) == len(ids)
    frames = client.frames("kernel_info_request", {})
    client.shell.send_multipart(frames)
    client.shell.poll(5000)
    date = json.loads(client.shell.recv_multipart()[2])["date"]
    assert len(date) == 27 and date.endswith("Z"), date


def test_unknown_types_are_busy_and_idle(client):
    for channel in ("shell", "control"):
        msg_id = client.send("no_such_request", {}, channel)
        assert client.shown_by(msg_id) == []
        unanswered(client, channel)
    still_answers(client)


def test_content_that_is_odd(client):
    for content in ({}, {"code": 1}, {"code": None}, {"code": []},
                    {"code": "x", "silent": "yes"}):
        r = client.request("execute_request", content)
        assert r.status in ("ok", "error")
        assert isinstance(r.content["execution_count"], int)
    for kind in ("complete", "inspect", "is_complete", "history"):
        r = client.request(f"{kind}_request", {})
        assert "status" in r.content
    still_answers(client)


def test_a_name_that_needs_escapes(fresh):
    k = fresh(env={"USER": 'a"b\\c\n\xff'})
    with k.client() as c:
        still_answers(c)


def test_garbage_is_dropped_and_memory_flat(fresh):
    k = fresh()
    count = 100000 if SOAK else 5000
    draw = random.Random(7)
    with k.client() as c:
        still_answers(c)
        send_garbage(c, draw, count // 5)
        still_answers(c)
        before = k.memory()
        send_garbage(c, draw, count)
        still_answers(c)
        grown = k.memory() - before
    assert "so far" in k.said() and len(k.said()) < 10000
    if "build/" not in Kernel.build:  # sanitizers keep freed memory
        assert grown < 4 << 20, f"{grown} bytes more after {count} messages"


def send_garbage(client, draw, count):
    good = client.frames("execute_request", Client.cell("error 'ran'"))
    for i in range(count):
        frames = [bytearray(f) for f in good]
        kind = draw.randrange(4)
        if kind == 0:
            frames[1] = bytearray(b"f" * 64)
        elif kind == 1:
            f = frames[draw.randrange(1, 6)]
            if f:
                f[draw.randrange(len(f))] ^= 1 << draw.randrange(8)
            else:
                frames.pop()
        elif kind == 2:
            frames = frames[:draw.randrange(1, 6)]
        else:
            frames = [draw.randbytes(draw.randrange(40))
                      for _ in range(draw.randrange(1, 9))]
        s = client.shell if i % 2 else client.control
        s.send_multipart([bytes(f) for f in frames])
