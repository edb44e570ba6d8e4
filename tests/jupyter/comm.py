"""Comm messages that no target is there for."""


def test_comm_of_an_unknown_target_is_closed(client):
    m = client.send("comm_open", {"comm_id": "c1", "target_name": "no such",
                                  "data": {}})
    shown = client.shown_by(m)
    assert [s["msg_type"] for s in shown] == ["comm_close"]
    assert shown[0]["content"]["comm_id"] == "c1"


def test_comm_messages_of_nothing(client):
    for kind in ("comm_msg", "comm_close"):
        m = client.send(kind, {"comm_id": "none", "data": {}})
        client.shown_by(m)
    for kind in ("comm_open", "comm_msg", "comm_close"):
        m = client.send(kind, {})
        client.shown_by(m)
    assert client.run("1").value() == "1"


def test_no_comms_are_an_object(client):
    c = client.request("comm_info_request", {}).content
    assert c["comms"] == {} and c["status"] == "ok"
    c = client.request("comm_info_request", {"target_name": "x"}).content
    assert c["comms"] == {}
