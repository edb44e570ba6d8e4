"""Text: bytes that are no UTF-8, positions in characters, odd numbers."""


def test_invalid_utf8_in_output(client):
    r = client.run(r"print('a\xff\xfeb')")
    assert r.text() == "a\ufffd\ufffdb\n"
    r = client.run(r"io.stderr:write('\xed\xa0\x80')")
    assert "\ufffd" in r.text("stderr")


def test_invalid_utf8_in_results_and_errors(client):
    r = client.run(r"return 'a\xffb'")
    assert r.status == "ok" and "a" in r.value()
    r = client.run(r"error('a\xffb', 0)")
    assert r.content["evalue"] == "a\ufffdb", r.content
    r = client.run(r"error(setmetatable({}, {__tostring = function() "
                   r"return '\xff' end}))")
    assert r.status == "error"


def test_zero_bytes(client):
    r = client.run(r"print('a\0b')")
    assert r.text() == "a\0b\n"
    assert client.run("return #'a\\0b'").value() == "3"
    assert client.run("return #'a\0b'").status in ("ok", "error")


def test_characters_written_in_parts_are_whole(client):
    r = client.run(r"""
for _, b in ipairs{'\xf0', '\x9f', '\x98', '\x80', '\xc3', '\xa4'} do
  io.stdout:write(b)
  io.stdout:flush()
  local t = os.clock()
  while os.clock() - t < 0.12 do end
end""")
    assert r.text() == "\U0001f600ä", r.text()
    assert len(r.of("stream")) >= 2


def test_characters_cut_by_an_error_are_shown(client):
    r = client.run(r"io.write('x\xf0\x9f')")
    assert r.text() == "x\ufffd" or r.text() == "x\ufffd\ufffd"


def test_cursor_positions_count_characters(client):
    code = "s = '\U0001f600\U0001f601e\u0301'; string.re"
    c = client.request("complete_request", {
        "code": code, "cursor_pos": len(code)}).content
    assert "string.rep" in c["matches"] or "rep" in c["matches"]
    assert c["cursor_end"] == len(code)
    assert code[c["cursor_start"]:].startswith(("string.re", "re"))
    for at in (0, 5, len(code) + 1000, -3):
        c = client.request("complete_request", {
            "code": code, "cursor_pos": at}).content
        assert 0 <= c["cursor_start"] <= c["cursor_end"] <= len(code)


def test_inspection_counts_characters(client):
    code = "\U0001f600 = 1; print"
    c = client.request("inspect_request", {
        "code": code, "cursor_pos": len(code), "detail_level": 0}).content
    assert c["found"] and "text/plain" in c["data"]


def test_numbers_that_json_has_not(client):
    for code in ("return 0/0", "return 1/0", "return {0/0, -1/0}"):
        r = client.run(code)
        assert r.status == "ok", r.content
    r = client.run("require('tide').display({x = 0/0})")
    assert r.status == "ok"


def test_integers_are_integers(client):
    r = client.run("1")
    assert type(r.content["execution_count"]) is int
    c = client.request("complete_request",
                       {"code": "pri", "cursor_pos": 3}).content
    assert type(c["cursor_start"]) is int and type(c["cursor_end"]) is int


def test_code_in_other_scripts(client):
    assert client.run("return '日本語 ä \U0001f600'").value().count("日") == 1
    assert client.run("print '\u2028\u2029\ufeff'").text() == \
        "\u2028\u2029\ufeff\n"
