"""Several clients, clients that come back, other transports."""
import os
import tempfile

from kernel import Kernel


def test_two_are_welcomed_and_see_everything(kernel):
    with kernel.client() as a, kernel.client() as b:
        assert a.early[0]["content"] == {"subscription": ""}
        assert b.early[0]["content"] == {"subscription": ""}
        r = a.run("print 'both'")
        shown = b.shown_by(r.reply["parent_header"]["msg_id"])
        assert [m["msg_type"] for m in shown] == r.types()


def test_starting_comes_after_the_first_welcome(fresh):
    k = fresh()
    with k.client(ready=False) as c:
        first, second = c.get("iopub"), c.get("iopub")
        assert first["msg_type"] == "iopub_welcome"
        assert first["parent_header"] == {}
        assert second["content"] == {"execution_state": "starting"}
        with k.client(ready=False) as d:
            assert d.get("iopub")["msg_type"] == "iopub_welcome"
            r = c.run("1")
            states = []
            while d.iopub.poll(300):
                states.append(d.get("iopub"))
            assert "starting" not in [m["content"].get("execution_state")
                                      for m in states]
            assert r.status == "ok"


def test_a_narrow_subscription_is_welcomed_by_its_name(kernel):
    with kernel.client(ready=False) as c:
        c.get("iopub")
        c.iopub.subscribe(b"stream.stdout")
        m = c.get("iopub")
        while m["msg_type"] != "iopub_welcome":
            m = c.get("iopub")
        assert m["content"] == {"subscription": "stream.stdout"}


def test_topics(kernel):
    with kernel.client() as c:
        m = c.start("print '1'")
        topics = []
        while True:
            frames = c.iopub.recv_multipart()
            if m.encode() not in frames[4]:
                continue
            topics.append(frames[0])
            if b'"idle"' in frames[-1]:
                break
        assert b"stream.stdout" in topics, topics
        assert any(t.startswith(b"kernel.") and t.endswith(b".status")
                   for t in topics)
        c.reply_to(m)


def test_the_same_identity_again(kernel):
    for i in range(5):
        with kernel.client(identity=b"the same") as c:
            assert c.run(f"return {i}").value() == str(i)


def test_an_identity_taken_over(kernel):
    """The newer connection gets the replies."""
    with kernel.client(identity=b"one") as a:
        a.run("1")
        with kernel.client(identity=b"one") as b:
            assert b.run("2").value() == "2"


def test_a_client_that_leaves_while_its_cell_runs(kernel):
    with kernel.client() as a:
        a.start_running("for i = 1, 1e7 do end left = true")
    with kernel.client() as b:
        assert b.run("left").value() == "true"


def test_many_clients(kernel):
    clients = [kernel.client() for _ in range(10)]
    ids = [c.start(f"return {i}") for i, c in enumerate(clients)]
    for i, (c, m) in enumerate(zip(clients, ids)):
        assert c.finish(m).value() == str(i)
    for c in clients:
        c.close()


def test_ipc():
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        ports = dict(zip(("shell_port", "iopub_port", "stdin_port",
                          "control_port", "hb_port"), range(1, 6)))
        k = Kernel(transport="ipc", ip=os.path.join(folder, "s"), **ports)
        with k, k.client() as c:
            assert c.run("print(7)").text() == "7\n"
            c.hb.send(b"x")
            assert c.hb.recv() == b"x"


def test_heartbeat_echoes_anything(client):
    for text in (b"", b"ping", b"\0" * 100000):
        client.hb.send(text)
        assert client.hb.poll(5000) and client.hb.recv() == text
    client.hb.send_multipart([b"a", b"b"])
    assert client.hb.recv_multipart() == [b"a", b"b"]
