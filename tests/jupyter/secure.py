"""CURVE, and the handshake with a launcher that chooses no ports."""
import glob
import hashlib
import hmac
import json
import secrets

import zmq


def curve_kernel(fresh):
    public, secret = zmq.curve_keypair()
    return fresh(curve_publickey=public.decode(),
                 curve_secretkey=secret.decode()), public


def test_curve(fresh):
    k, public = curve_kernel(fresh)
    with k.client(curve=public) as c:
        assert c.run("print(7)").text() == "7\n"
        c.interrupt()
        c.hb.send(b"x")
        assert c.hb.poll(5000) and c.hb.recv() == b"x"
        m = c.start("return io.read()", allow_stdin=True)
        c.answer("typed")
        assert c.finish(m).value() == '"typed"'


def test_curve_by_jupyter_client(fresh):
    from jupyter_client import BlockingKernelClient
    k, _ = curve_kernel(fresh)
    c = BlockingKernelClient()
    c.load_connection_file(k.file)
    c.start_channels()
    try:
        c.wait_for_ready(timeout=15)
        assert c.execute_interactive("x = 1", timeout=15)["content"][
            "status"] == "ok"
    finally:
        c.stop_channels()


def test_without_or_with_another_key_nobody_is_heard(fresh):
    k, public = curve_kernel(fresh)
    other, _ = zmq.curve_keypair()
    for curve in (None, other):
        with k.client(curve=curve, ready=False) as c:
            for channel in ("shell", "control"):
                c.send("kernel_info_request", {}, channel)
            c.hb.send(b"x")
            assert not c.shell.poll(300) and not c.control.poll(0)
            assert not c.iopub.poll(0) and not c.hb.poll(0)
    with k.client(curve=public) as c:
        assert c.run("1").value() == "1"


def test_curve_keys_that_are_none(fresh):
    public, secret = (k.decode() for k in zmq.curve_keypair())
    for keys, said in (({"curve_publickey": public}, "come together"),
                       ({"curve_secretkey": secret}, "come together"),
                       ({"curve_publickey": public,
                         "curve_secretkey": "short"}, "40 characters"),
                       ({"curve_publickey": 1, "curve_secretkey": 2},
                        "40 characters")):
        k = fresh(**keys)
        assert k.wait() == 1 and said in k.said(), k.said()


class Launcher:
    """The side that waits to be told of ports."""

    def __init__(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.key = secrets.token_hex(16)

    def sign(self, text, key=None):
        return hmac.new((key or self.key).encode(), text,
                        hashlib.sha256).hexdigest().encode()

    def file(self):
        return {"transport": "tcp", "ip": "127.0.0.1", "key": self.key,
                "signature_scheme": "hmac-sha256", "kernel_id": "k1",
                "registration_port": self.port}

    def hear(self):
        assert self.socket.poll(10000)
        identity, delimiter, signature, content = self.socket.recv_multipart()
        assert delimiter == b"<IDS|MSG>"
        assert signature == self.sign(content)
        return identity, json.loads(content)

    def acknowledge(self, identity, key=None):
        text = b'{"status": "ok"}'
        self.socket.send_multipart([identity, b"<IDS|MSG>",
                                    self.sign(text, key), text])

    def close(self):
        self.context.destroy(0)


def registering(fresh, launcher, env=None):
    k = fresh(start=False, env=env)
    k.connection = launcher.file()
    return k.start()


def test_the_handshake(fresh):
    launcher = Launcher()
    k = fresh(start=False)
    k.env["JUPYTER_RUNTIME_DIR"] = k.path("runtime")
    k.connection = launcher.file()
    k.start()
    identity, told = launcher.hear()
    assert told.pop("kernel_id") == "k1"
    assert set(told) == {"shell_port", "iopub_port", "stdin_port",
                         "control_port", "hb_port"}
    assert all(1024 <= p <= 65535 for p in told.values())
    assert len(set(told.values())) == 5
    launcher.acknowledge(identity)
    k.connection.update(told)
    with k.client() as c:
        assert c.run("1").value() == "1"
    with open(glob.glob(k.path("runtime/kernel-*.json"))[0],
              encoding="utf-8") as f:
        written = json.load(f)
    assert {n: written[n] for n in told} == told
    assert written["key"] == launcher.key
    launcher.close()


def test_an_acknowledgement_by_another_key(fresh):
    launcher = Launcher()
    k = registering(fresh, launcher)
    identity, _ = launcher.hear()
    launcher.acknowledge(identity, "another")
    assert k.wait() == 1 and "did not acknowledge" in k.said()
    launcher.close()


def test_a_registration_port_that_is_none(fresh):
    for port in (0, "x", -1, None):
        k = fresh(registration_port=port)
        assert k.wait() == 1 and "registration_port" in k.said(), k.said()
