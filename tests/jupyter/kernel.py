"""A kernel process, and clients that talk to it frame by frame."""
import itertools
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import tempfile
import time

import zmq
from jupyter_client.session import Session

CHANNELS = {"shell": zmq.DEALER, "control": zmq.DEALER, "stdin": zmq.DEALER,
            "iopub": zmq.SUB, "hb": zmq.REQ}
PATIENCE = float(os.environ.get("TIDE_TEST_PATIENCE", "60"))


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_ports(n):
    """Ports that nobody listens at just now, nor gets by dialling before they are used."""
    order = random.sample(range(20000, 32000), 1000)
    return list(itertools.islice((p for p in order if is_free(p)), n))


class Kernel:
    """`tide kernel` with a connection file of its own."""

    build = "build"

    def __init__(self, options=(), env=None, start=True, program=None,
                 **connection):
        self.folder = tempfile.TemporaryDirectory(prefix="tide-jupyter-")
        self.file = os.path.join(self.folder.name, "connection.json")
        ports = free_ports(5)
        names = ("shell_port", "iopub_port", "stdin_port", "control_port",
                 "hb_port")
        self.connection = {"transport": "tcp", "ip": "127.0.0.1",
                           "key": secrets.token_hex(16),
                           "signature_scheme": "hmac-sha256",
                           **dict(zip(names, ports)), **connection}
        tide = os.path.abspath(os.path.join(Kernel.build, "tide"))
        self.program = program or [tide, "kernel", *options]
        self.process = None
        self.env = {**os.environ, "XDG_STATE_HOME": self.path("state"),
                    "XDG_CONFIG_HOME": self.path("config"),
                    "XDG_CACHE_HOME": self.path("cache"), **(env or {})}
        self.log = open(self.path("log"), "w+", encoding="utf-8",
                        errors="replace")
        if start:
            self.start()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self):
        with open(self.file, "w", encoding="utf-8") as f:
            json.dump(self.connection, f)

    def start(self):
        self.write()
        self.process = subprocess.Popen(
            [*self.program, self.file], env=self.env,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True)
        return self

    def said(self):
        """What it wrote to the terminal."""
        self.log.flush()
        with open(self.path("log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        return self.process.poll() is None

    def wait(self, seconds=PATIENCE):
        return self.process.wait(seconds)

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def signal(self, number):
        os.kill(self.process.pid, number)

    def endpoint(self, channel):
        c = self.connection
        sign = ":" if c["transport"] == "tcp" else "-"
        return f"{c['transport']}://{c['ip']}{sign}{c[channel + '_port']}"

    def client(self, **options):
        return Client(self, **options)

    def stop(self):
        if self.process and self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Result:
    """What came of a request: its reply, and what was shown."""

    def __init__(self, reply, shown):
        self.reply, self.shown = reply, shown

    @property
    def content(self):
        return self.reply["content"]

    @property
    def status(self):
        return self.content["status"]

    def types(self):
        return [m["msg_type"] for m in self.shown]

    def of(self, msg_type):
        return [m["content"] for m in self.shown if m["msg_type"] == msg_type]

    def text(self, name="stdout"):
        return "".join(c["text"] for c in self.of("stream")
                       if c["name"] == name)

    def value(self):
        """The plain text of the cell's result."""
        return self.of("execute_result")[0]["data"]["text/plain"]


class Client:
    """Five sockets; messages are dicts as jupyter_client has them."""

    def __init__(self, kernel, identity=None, channels=tuple(CHANNELS),
                 ready=True, curve=None):
        self.kernel = kernel
        self.context = zmq.Context()
        key = kernel.connection["key"].encode()
        self.session = Session(
            key=key,
            signature_scheme=kernel.connection["signature_scheme"])
        identity = identity or secrets.token_hex(8).encode()
        for name in channels:
            s = self.context.socket(CHANNELS[name])
            s.linger = 0
            s.reconnect_ivl = 10  # ms; a kernel that starts is found at once
            if name in ("shell", "control", "stdin"):
                s.identity = identity
            if name == "iopub":
                s.rcvhwm = 0
                s.subscribe(b"")
            if curve:
                s.curve_serverkey = curve
                s.curve_publickey, s.curve_secretkey = zmq.curve_keypair()
            s.connect(kernel.endpoint(name))
            setattr(self, name, s)
        self.kept = {name: [] for name in CHANNELS}
        self.early = []
        if ready:
            self.await_ready()

    def await_ready(self):
        self.early = [self.get("iopub")]
        assert self.early[0]["msg_type"] == "iopub_welcome", self.early
        self.request("kernel_info_request", {})

    def close(self):
        self.context.destroy(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- messages ----

    def send(self, msg_type, content, channel="shell", subshell=None,
             metadata=None, buffers=None):
        """Sends; the message's id."""
        m = self.session.msg(msg_type, content, metadata=metadata)
        if subshell:
            m["header"]["subshell_id"] = subshell
        self.session.send(getattr(self, channel), m, buffers=buffers)
        return m["header"]["msg_id"]

    def frames(self, msg_type, content):
        """A signed message's frames, delimiter first."""
        m = self.session.msg(msg_type, content)
        return self.session.serialize(m)

    def receive(self, channel, timeout):
        s = getattr(self, channel)
        if not s.poll(max(timeout, 0) * 1000):
            raise TimeoutError(f"no message on {channel} in {timeout:.1f} s")
        _, frames = self.session.feed_identities(s.recv_multipart())
        return self.session.deserialize(frames)

    def get(self, channel="shell", timeout=PATIENCE):
        """The next message; raises when none comes in time."""
        if self.kept[channel]:
            return self.kept[channel].pop(0)
        return self.receive(channel, timeout)

    def next_of(self, msg_id, channel, until):
        """The next one of a request; others are kept for who asks."""
        kept = self.kept[channel]
        for i, m in enumerate(kept):
            if m["parent_header"].get("msg_id") == msg_id:
                return kept.pop(i)
        while True:
            m = self.receive(channel, until - time.monotonic())
            if m["parent_header"].get("msg_id") == msg_id:
                return m
            kept.append(m)

    def reply_to(self, msg_id, channel="shell", timeout=PATIENCE):
        return self.next_of(msg_id, channel, time.monotonic() + timeout)

    def shown_by(self, msg_id, timeout=PATIENCE):
        """What IOPub says about a request, up to `idle`, without states."""
        shown, until = [], time.monotonic() + timeout
        while True:
            m = self.next_of(msg_id, "iopub", until)
            if m["msg_type"] != "status":
                shown.append(m)
            elif m["content"]["execution_state"] == "idle":
                return shown

    def request(self, msg_type, content, channel="shell", timeout=PATIENCE,
                **options):
        """Sends and waits for reply and idle."""
        msg_id = self.send(msg_type, content, channel, **options)
        reply = self.reply_to(msg_id, channel, timeout)
        return Result(reply, self.shown_by(msg_id, timeout))

    # ---- cells ----

    @staticmethod
    def cell(code, **options):
        return {"code": code, "silent": False, "store_history": True,
                "user_expressions": {}, "allow_stdin": False,
                "stop_on_error": True, **options}

    def start(self, code, subshell=None, **options):
        """Begins a cell; the message's id."""
        return self.send("execute_request", self.cell(code, **options),
                         subshell=subshell)

    def start_running(self, code, **options):
        """Begins a cell, once it runs its id is returned."""
        msg_id, until = self.start(code, **options), time.monotonic() + PATIENCE
        while True:
            m = self.next_of(msg_id, "iopub", until)
            if m["msg_type"] == "execute_input":
                self.kept["iopub"].insert(0, m)
                return msg_id

    def finish(self, msg_id, timeout=PATIENCE):
        return Result(self.reply_to(msg_id, timeout=timeout),
                      self.shown_by(msg_id, timeout))

    def run(self, code, timeout=PATIENCE, subshell=None, **options):
        return self.finish(self.start(code, subshell, **options), timeout)

    def interrupt(self):
        r = self.request("interrupt_request", {}, "control")
        assert r.status == "ok", r.content
        return r

    def shutdown(self, restart=False):
        return self.request("shutdown_request", {"restart": restart},
                            "control")

    def answer(self, value, timeout=PATIENCE):
        """Waits for an input_request and answers it; the request."""
        asked = self.get("stdin", timeout)
        assert asked["msg_type"] == "input_request", asked
        m = self.session.msg("input_reply", {"value": value, "status": "ok"},
                             parent=asked["header"])
        self.session.send(self.stdin, m)
        return asked
