"""Widgets and comms over the wire."""
import time


def comm(client, comm_id, data, buffers=None):
    msg_id = client.send("comm_msg", {"comm_id": comm_id, "data": data},
                         buffers=buffers)
    return msg_id, client.shown_by(msg_id)


def update(client, comm_id, state):
    return comm(client, comm_id, {"method": "update", "state": state,
                                  "buffer_paths": []})


def model_of(r):
    """The id of the widget that a cell ended with."""
    data = r.of("execute_result")[0]["data"]
    return data["application/vnd.jupyter.widget-view+json"]["model_id"]


def test_a_widget_opens_and_shows(client):
    r = client.run('w = td.ui.slider{label = "lr", min = 0, max = 10}; w')
    opened = [m for m in r.shown if m["msg_type"] == "comm_open"]
    assert [m["content"]["data"]["state"]["_model_name"] for m in opened] == [
        "LayoutModel", "SliderStyleModel", "IntSliderModel"]
    assert all(m["metadata"]["version"] == "2.1.0" for m in opened)
    assert opened[-1]["content"]["comm_id"] == model_of(r)
    view = r.of("execute_result")[0]["data"]
    assert "lr [" in view["text/plain"]
    assert view["application/vnd.jupyter.widget-view+json"][
        "version_major"] == 2


def test_update_and_echo(client):
    model = model_of(client.run("w = td.ui.slider{max = 10}; w"))
    _, shown = update(client, model, {"value": 7})
    assert [m["content"]["data"]["method"] for m in shown] == ["echo_update"]
    assert client.run("w.value").value() == "7"
    _, shown = update(client, model, {"value": 70})
    assert [m["content"]["data"]["method"] for m in shown] == ["echo_update",
                                                              "update"]
    assert shown[1]["content"]["data"]["state"] == {"value": 10}
    r = client.run("w.value = 3")
    assert r.of("comm_msg")[0]["data"] == {
        "method": "update", "state": {"value": 3}, "buffer_paths": []}


def test_request_states(client):
    model = model_of(client.run('w = td.ui.text{value = "é"}; w'))
    client.send("comm_open", {"comm_id": "ctl", "data": {},
                              "target_name": "jupyter.widget.control"})
    _, shown = comm(client, "ctl", {"method": "request_states"})
    data = shown[0]["content"]["data"]
    assert data["method"] == "update_states"
    assert data["states"][model]["state"]["value"] == "é"
    assert data["states"][model]["model_name"] == "TextModel"
    _, shown = comm(client, model, {"method": "request_state"})
    assert shown[0]["content"]["data"]["state"]["value"] == "é"
    info = client.request("comm_info_request", {})
    assert info.content["comms"][model]["target_name"] == "jupyter.widget"
    info = client.request("comm_info_request", {"target_name": "x"})
    assert info.content["comms"] == {}


def test_an_unknown_target_is_closed(client):
    msg_id = client.send("comm_open", {"comm_id": "c1", "target_name": "no",
                                       "data": {}})
    shown = client.shown_by(msg_id)
    assert [(m["msg_type"], m["content"]["comm_id"]) for m in shown] == [
        ("comm_close", "c1")]


def test_buffers_both_ways(client):
    client.run('td.comm.register("echo", function(c, _, buffers, metadata)\n'
               "  c:send({n = #buffers, of = metadata.a}, "
               "{buffers = buffers})\n"
               "  c:on_message(function(data, more)\n"
               "    c:send(data, {buffers = more})\n"
               "  end)\n"
               "end)")
    msg_id = client.send("comm_open", {"comm_id": "e1", "target_name": "echo",
                                       "data": {}}, metadata={"a": 5},
                         buffers=[b"\0\1\xff", b""])
    m = client.shown_by(msg_id)[0]
    assert m["content"]["data"] == {"n": 2, "of": 5}
    assert [bytes(b) for b in m["buffers"]] == [b"\0\1\xff", b""]
    _, shown = comm(client, "e1", {"x": 1}, buffers=[bytes(100000)])
    assert [bytes(b) for b in shown[0]["buffers"]] == [bytes(100000)]


def test_a_click_and_an_error_in_it(client):
    model = model_of(client.run('n = 0; b = td.ui.button("Go")\n'
                                "b:on_click(function() n = n + 1 end)\n"
                                "b:on_click(function() error 'oops' end); b"))
    comm(client, model, {"method": "custom", "content": {"event": "click"}})
    assert client.run("n").value() == "1"


def test_output_captures(client):
    r = client.run("o = td.ui.output()\n"
                   "o:capture(function()\n"
                   "  print 'in'; td.display(td.html '<b>x</b>'); print 'two'\n"
                   "end)\n"
                   "print 'out'")
    assert r.text() == "out\n", r.shown
    assert r.of("display_data") == []
    last = [m["data"]["state"]["outputs"] for m in r.of("comm_msg")][-1]
    assert [x.get("text") or x["data"]["text/html"] for x in last] == [
        "in\n", "<b>x</b>", "two\n"]
    r = client.run("o:clear(); o:capture(function() error 'oops' end)")
    last = [m["data"]["state"]["outputs"] for m in r.of("comm_msg")][-1]
    assert r.status == "ok" and "oops" in last[0]["evalue"]


LOOP = """
x = td.placeholder("float32", {}, "x")
big = td.random_uniform{300, 300}
for _ = 1, 3 do big = td.matmul(big, big) * 0.001 end
out = x + 0 * big:sum()
sess = td.session()
seen, w.value = {}, 0.0
print "go"
for i = 1, 100000 do
  local y = sess:run(out, {[x] = w.value})
  if y ~= seen[#seen] then seen[#seen + 1] = y end
  if y == 5 then break end
end
return #seen
"""


def test_a_slider_moves_while_steps_run(client):
    model = model_of(client.run(
        "w = td.ui.slider{min = 0.0, max = 10.0}\n"
        "heard = {}\n"
        "w:on_change(function(v) heard[#heard + 1] = v end); w"))
    cell = client.start(LOOP)
    while True:  # until it runs
        m = client.next_of(cell, "iopub", time.monotonic() + 20)
        if m["msg_type"] == "stream":
            break
    for value in (1.5, 2.5, 5.0):
        start = time.monotonic()
        _, shown = update(client, model, {"value": value})
        assert time.monotonic() - start < 5
        assert shown[0]["content"]["data"]["method"] == "echo_update"
    r = client.finish(cell)
    assert r.status == "ok", r.content
    assert client.run("seen[#seen]").value() == "5.0"
    assert client.run("heard[#heard]").value() in ("5.0", "5")


def test_interact(client):
    r = client.run("box = td.ui.interact(function(v)\n"
                   "  print('n', v.n)\n"
                   "  return v.n * 2\n"
                   "end, {n = 3}); box.controls.n")
    model = model_of(r)
    _, shown = update(client, model, {"value": 4})
    states = [m["content"]["data"].get("state", {}) for m in shown]
    outputs = [s["outputs"] for s in states if "outputs" in s][-1]
    assert outputs[0]["text"] == "n\t4\n"
    assert outputs[1]["data"]["text/plain"] == "8"
