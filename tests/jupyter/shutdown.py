"""The end: by message, by signal, with the parent; output is out before."""
import glob
import os
import signal
import subprocess
import sys
import time

from kernel import Kernel

SOAK = bool(os.environ.get("TIDE_SOAK"))


def end_of(c):
    """What IOPub said up to the end."""
    shown = []
    while c.iopub.poll(2000):
        shown.append(c.get("iopub"))
        last = shown[-1]
        if (last["parent_header"].get("msg_type") == "shutdown_request" and
                last["content"].get("execution_state") == "idle"):
            break
    return shown


def test_the_reply_on_both_sockets(fresh):
    k = fresh()
    with k.client() as c:
        start = time.monotonic()
        c.send("shutdown_request", {"restart": False}, "control")
        reply = c.get("control")
        assert reply["content"] == {"status": "ok", "restart": False}
        shown = end_of(c)
        also = [m for m in shown if m["msg_type"] == "shutdown_reply"]
        assert also[0]["content"] == reply["content"]
        assert also[0]["header"]["msg_id"] != reply["header"]["msg_id"]
        assert k.wait() == 0
        assert time.monotonic() - start < 2


def test_restart_is_echoed_and_ports_stay(fresh):
    k = fresh()
    with k.client() as c:
        first = c.run("x = 1").reply["header"]["session"]
        c.send("shutdown_request", {"restart": True}, "control")
        assert c.get("control")["content"]["restart"] is True
        assert k.wait() == 0
    k.start()
    with k.client() as c:
        r = c.run("return x")
        assert r.reply["header"]["session"] != first
        assert r.of("execute_result") == [] or r.value() == "nil"
        assert r.content["execution_count"] == 1


def test_a_client_that_stays_over_a_restart(fresh):
    k = fresh()
    with k.client() as c:
        c.run("1")
        c.send("shutdown_request", {"restart": True}, "control")
        c.get("control")
        k.wait()
        k.start()
        m = c.start("return 3")
        assert c.reply_to(m)["content"]["status"] == "ok"


def test_on_the_shell_socket_too(fresh):
    k = fresh()
    with k.client() as c:
        c.send("shutdown_request", {"restart": False})
        assert k.wait() == 0


def test_while_something_runs(fresh):
    for code in ("while true do end", "os.execute 'sleep 60'",
                 "while true do pcall(function() while true do end end) end",
                 "td = require 'tide'\ntd.session():run(td.while_loop("
                 "function(i) return td.greater_equal(i, 0) end, "
                 "function(i) return i * 1 end, {1}))"):
        k = fresh()
        with k.client() as c:
            c.start_running(code)
            time.sleep(0.05)
            start = time.monotonic()
            c.send("shutdown_request", {"restart": False}, "control")
            assert c.get("control")["msg_type"] == "shutdown_reply"
            assert k.wait() == 0
            assert time.monotonic() - start < 2.4, code


def test_while_a_call_in_c_cannot_be_stopped(fresh):
    k = fresh()
    with k.client() as c:
        c.start_running("('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))")
        c.send("shutdown_request", {"restart": False}, "control")
        assert c.get("control")["msg_type"] == "shutdown_reply"
        assert k.wait(8) == 0


def test_while_a_subshell_cannot_be_stopped(fresh):
    k = fresh()
    with k.client() as c:
        s = c.request("create_subshell_request", {},
                      "control").content["subshell_id"]
        c.start("('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))",
                subshell=s)
        time.sleep(0.3)
        c.send("shutdown_request", {"restart": False}, "control")
        assert c.get("control")["msg_type"] == "shutdown_reply"
        assert k.wait(8) == 0


def test_by_sigterm(fresh):
    k = fresh()
    with k.client() as c:
        c.start_running("print 'seen'\nwhile true do end")
        k.signal(signal.SIGTERM)
        assert k.wait() == 0
        text = "".join(m["content"].get("text", "") for m in end_of(c))
        assert "seen" in text


def running(command):
    """Processes whose command line has that in it."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if command in line:
            found.append(line)
    return found


def test_by_sigterm_while_a_job_hears_it(fresh):
    k = fresh()
    with k.client() as c:
        c.run("heard = require('tide.script.signals').open()")
        k.signal(signal.SIGUSR1)
        r = c.run("return heard:asked()")
        assert "SIGUSR1" in r.value(), r.value()
        k.signal(signal.SIGTERM)
        assert k.wait() == 0


def test_children_end_with_it(fresh):
    k = fresh()
    with k.client() as c:
        c.start_running("print(1)\nos.execute 'exec sleep 61.25'")
        time.sleep(0.3)
        assert running("sleep 61.25")
        c.send("shutdown_request", {"restart": False}, "control")
        k.wait()
    time.sleep(0.2)
    assert not running("sleep 61.25")


def test_the_parent_ends(fresh):
    k = fresh(start=False)
    k.write()
    tide = os.path.abspath(os.path.join(Kernel.build, "tide"))
    script = (f"import os, subprocess, sys, time\n"
              f"env = dict(os.environ, JPY_PARENT_PID=str(os.getpid()))\n"
              f"p = subprocess.Popen([{tide!r}, 'kernel', {k.file!r}], "
              f"env=env)\nprint(p.pid, flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", script],
                          stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        with k.client() as c:
            assert c.run("1").value() == "1"
            parent.kill()
            parent.wait()
            until = time.monotonic() + 5
            while os.path.exists(f"/proc/{pid}") and not ended(pid):
                assert time.monotonic() < until
                time.sleep(0.05)


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_execute_and_shutdown_at_once(fresh):
    """Whatever the cell printed is seen, however soon the end comes."""
    for i in range(1000 if SOAK else 30):
        k = fresh()
        with k.client() as c:
            c.start(f"print('out {i}') return {i}")
            c.send("shutdown_request", {"restart": False}, "control")
            shown = end_of(c)
            text = "".join(m["content"].get("text", "") for m in shown)
            assert text == f"out {i}\n", (i, text)
            assert [m for m in shown if m["msg_type"] == "execute_result"], i
            assert [m for m in shown if m["msg_type"] == "shutdown_reply"], i
            assert k.wait() == 0
        k.stop()


def test_with_subshells(fresh):
    k = fresh()
    with k.client() as c:
        s = c.request("create_subshell_request", {},
                      "control").content["subshell_id"]
        c.start("while true do end", subshell=s)
        c.start_running("while true do end")
        start = time.monotonic()
        c.send("shutdown_request", {"restart": False}, "control")
        c.get("control")
        assert k.wait() == 0 and time.monotonic() - start < 2.5
