"""A live kernel gets changed messages, signed and not, on every socket.

TIDE_SOAK=1: ten minutes, else seconds; TIDE_SEED chooses. The build decides
about sanitizers.
"""
import copy
import hashlib
import hmac
import json
import os
import random
import time

from kernel import Client

SECONDS = 600 if os.environ.get("TIDE_SOAK") else 4
REQUESTS = {
    "execute_request": Client.cell("1 + 1"),
    "complete_request": {"code": "string.re", "cursor_pos": 9},
    "inspect_request": {"code": "print", "cursor_pos": 3, "detail_level": 1},
    "is_complete_request": {"code": "for i = 1, 3 do"},
    "history_request": {"output": True, "raw": True, "session": 0, "start": 0,
                        "stop": 9, "n": 5, "pattern": "*", "unique": True,
                        "hist_access_type": "search"},
    "comm_info_request": {"target_name": "x"},
    "comm_open": {"comm_id": "1", "target_name": "jupyter.widget", "data": {}},
    "comm_msg": {"comm_id": "1", "data": {"method": "update", "state": {}}},
    "comm_close": {"comm_id": "1", "data": {}},
    "kernel_info_request": {}, "input_reply": {"value": "x"},
    "interrupt_request": {}, "usage_request": {},
    "create_subshell_request": {}, "list_subshell_request": {},
    "delete_subshell_request": {"subshell_id": "x"},
    "debug_request": {"type": "request", "seq": 1, "command": "initialize",
                      "arguments": {}},
}
ATOMS = [None, True, False, 0, -1, 1 << 62, 1.5, "", "x", "\0", "ä\U0001f600",
         [], {}, [[]], {"": {}}, "a" * 5000, 1e308, -(1 << 63)]


def mutate(draw, value, depth=0):
    """The value with something in it changed."""
    if depth > 4 or draw.random() < 0.2:
        return draw.choice(ATOMS)
    if isinstance(value, dict) and value:
        key, out = draw.choice(list(value)), dict(value)
        act = draw.randrange(4)
        if act == 0:
            del out[key]
        elif act == 1:
            out[draw.choice(["x", "", "\0", "code", "data"])] = draw.choice(
                ATOMS)
        else:
            out[key] = mutate(draw, out[key], depth + 1)
        return out
    if isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        return value[:at] + draw.choice(["(", "\"", "]]", "%", "\0", "é", "%%",
                                         "?", "\n", "end"]) + value[at:]
    return draw.choice(ATOMS)


def sign(key, parts):
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for p in parts:
        mac.update(p)
    return mac.hexdigest().encode()


def garble(draw, data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def message(draw, client):
    kind = draw.choice(list(REQUESTS))
    content, m = REQUESTS[kind], client.session.msg(kind, {})
    header = json.loads(client.session.pack(m["header"]))
    if draw.random() < 0.8:
        content = mutate(draw, content)
    if draw.random() < 0.15:
        date, header = header["date"], copy.deepcopy(mutate(draw, header))
        if isinstance(header, dict):  # a client reads dates that come back
            header["date"] = date
    if draw.random() < 0.1 and isinstance(header, dict):
        header["subshell_id"] = draw.choice(ATOMS)
    parts = [json.dumps(x).encode() for x in (header, {}, {}, content)]
    if draw.random() < 0.1:
        i = draw.randrange(4)
        parts[i] = garble(draw, parts[i])
    frames = [b"<IDS|MSG>", sign(client.session.key, parts), *parts]
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        frames.append(draw.randbytes(draw.randrange(100)))
    if draw.random() < 0.1:
        frames[draw.randrange(len(frames))] = draw.randbytes(8)
    return frames


def empty(client):
    for name in ("shell", "control", "iopub", "stdin"):
        s = getattr(client, name)
        while s.poll(0):
            s.recv_multipart()


def answers_right(client):
    """What came before may still interrupt a cell, or fail before it."""
    for _ in range(20):
        r = client.run("1 + 1", timeout=30)
        if r.status == "ok" or r.content["ename"] not in (
                "Aborted", "KeyboardInterrupt"):
            break
    assert r.value() == "2", r.content


def test_changed_messages(fresh):
    k = fresh()
    draw = random.Random(int(os.environ.get("TIDE_SEED", "1")))
    until, sent, first = time.monotonic() + SECONDS, 0, None
    while time.monotonic() < until:
        with k.client() as c:
            for _ in range(200):
                s = draw.choice([c.shell, c.shell, c.control, c.stdin])
                s.send_multipart(message(draw, c))
                sent += 1
            time.sleep(0.05)
            empty(c)
            c.send("interrupt_request", {}, "control")
        with k.client() as c:
            c.request("kernel_info_request", {}, "control", timeout=30)
            answers_right(c)
        first = first or k.memory()
    print(f"live_fuzz: {sent} messages, {k.memory() - first} bytes more")
    assert k.memory() - first < 256 << 20
