"""Frames, signatures, JSON: what is no message is dropped, the kernel lives."""
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


def test_malformed_json_in_each_part(client):
    good = [header(), b"{}", b"{}", b"{}"]
    bad = [b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b"{}{}",
           b"[" * 100000, b'{"a": NaN}', b'{"a": "\\ud800"}']
    for part in range(4):
        for text in bad:
            parts = list(good)
            parts[part] = text
            client.shell.send_multipart(signed(client, parts))
            client.control.send_multipart(signed(client, parts))
    unanswered(client, ms=300)
    unanswered(client, "control")
    still_answers(client)


def test_a_header_without_a_type(client):
    for text in (b"{}", b'{"msg_type": 1}', b'{"msg_type": ""}'):
        parts = [text, b"{}", b"{}", b"{}"]
        client.shell.send_multipart(signed(client, parts))
    unanswered(client)
    still_answers(client)


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
