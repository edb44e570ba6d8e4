-- ui.lua - widgets and channels: the messages they send, and what they make of
-- those of a page.
-- SPDX-License-Identifier: Apache-2.0

local lu = require "luaunit"
local td = require "tide"
local lines = require "tide.frontend.lines"
local frontend = require "tide.frontend"
local json = require "tide.base.json"
local service = require("tide.ui.channels").services
local helper = require "helper"

local raises = helper.raises
local tests = {}

-- f's messages: {type, content, metadata, buffers} each.
local function messages(f, ...)
  local list, line = {}, lines.current()
  line.sink = function(type, content, metadata, buffers)
    list[#list + 1] = {type = type, content = content, metadata = metadata,
                       buffers = buffers}
  end
  local got = table.pack(pcall(f, ...))
  line.sink = nil
  assert(got[1], got[2])
  return list, table.unpack(got, 2, got.n)
end

local function from_page(id, data)
  return messages(service.comm_msg, {comm_id = id, data = data})
end

local function id_of(w)
  local data = getmetatable(w).__repr_mimebundle(w)
  return data["application/vnd.jupyter.widget-view+json"].model_id
end

local function update(w, state)
  return from_page(id_of(w), {method = "update", state = state,
                              buffer_paths = {}})
end

-- ---- channels ---------------------------------------------------------------

function tests.channels()
  local sent, c = messages(td.comm.open, "chart", {n = 1},
                           {metadata = {a = 1}, buffers = {"\0\255"}})
  lu.assertEquals(sent[1].type, "comm_open")
  lu.assertEquals(sent[1].content, {comm_id = c.id, target_name = "chart",
                                    data = {n = 1}})
  lu.assertEquals(sent[1].metadata, {a = 1})
  lu.assertEquals(service.comm_info{}.comms[c.id], {target_name = "chart"})
  lu.assertNil(service.comm_info{target_name = "other"}.comms[c.id])
  local got
  c:on_message(function(data) got = data end)
  from_page(c.id, {x = 2})
  lu.assertEquals(got, {x = 2})
  lu.assertEquals(messages(c.close, c)[1].type, "comm_close")
  lu.assertEquals(#messages(c.close, c), 0)
  lu.assertNil(service.comm_info{}.comms[c.id])
  raises("takes no messages", c.send, c, {})
end

function tests.the_page_opens()
  local heard
  td.comm.register("echo", function(c, data)
    heard = data
    c:on_message(function(more) c:send(more) end)
    c:on_close(function() heard = "closed" end)
  end)
  local function open(target)
    return messages(service.comm_open, {comm_id = "p1", target_name = target,
                                        data = {hello = 1}})
  end
  lu.assertEquals(#open "echo", 0)
  lu.assertEquals(heard, {hello = 1})
  local sent = from_page("p1", {a = 7})
  lu.assertEquals(sent[1].content.data, {a = 7})
  service.comm_close{comm_id = "p1", data = {}}
  lu.assertEquals(heard, "closed")
  lu.assertEquals(#from_page("p1", {a = 7}), 0)
  lu.assertEquals(open("nobody")[1].type, "comm_close")
  td.comm.register("echo", nil)
  lu.assertEquals(open("echo")[1].type, "comm_close")
  raises("must be a string", td.comm.register, 3)
end

-- ---- widgets ----------------------------------------------------------------

function tests.a_widget_opens_whole()
  local sent, w = messages(td.ui.slider, {label = "n", min = 1, max = 5})
  lu.assertEquals(#sent, 3) -- layout, style, widget
  for _, m in ipairs(sent) do
    lu.assertEquals(m.type, "comm_open")
    lu.assertEquals(m.content.target_name, "jupyter.widget")
    lu.assertEquals(m.metadata.version, "2.1.0")
    lu.assertEquals(m.content.data.buffer_paths, {})
    for _, key in ipairs{"_model_module", "_model_module_version",
                         "_model_name", "_view_module", "_view_name",
                         "_view_module_version", "_view_count"} do
      lu.assertNotNil(m.content.data.state[key], key)
    end
  end
  local state = sent[3].content.data.state
  lu.assertEquals(state._model_name, "IntSliderModel")
  lu.assertEquals(state.layout, "IPY_MODEL_" .. sent[1].content.comm_id)
  lu.assertEquals(state.style, "IPY_MODEL_" .. sent[2].content.comm_id)
  lu.assertEquals({state.value, state.min, state.max, state.step}, {1, 1, 5, 1})
  lu.assertEquals(sent[3].content.comm_id, id_of(w))
  json.encode(state)
end

function tests.values_go_both_ways()
  local w = td.ui.slider{min = 0, max = 10, value = 2}
  local seen = {}
  w:on_change(function(x) seen[#seen + 1] = x end)
  local sent = messages(function() w.value = 7 end)
  lu.assertEquals(sent[1].content.data.method, "update")
  lu.assertEquals(sent[1].content.data.state, {value = 7})
  sent = update(w, {value = 3})
  lu.assertEquals(#sent, 1)
  lu.assertEquals(sent[1].content.data.method, "echo_update")
  lu.assertEquals(sent[1].content.data.state, {value = 3})
  lu.assertEquals(w.value, 3)
  sent = update(w, {value = 99}) -- put right
  lu.assertEquals(sent[2].content.data, {method = "update",
    state = {value = 10}, buffer_paths = {}})
  update(w, {value = 10})
  lu.assertEquals(seen, {7, 3, 10})
  lu.assertEquals(math.type(w.value), "integer")
  sent = from_page(id_of(w), {method = "request_state"})
  lu.assertEquals(sent[1].content.data.state._model_name, "IntSliderModel")
  w.max = 4
  lu.assertEquals(w.value, 4)
end

function tests.bad_updates_are_left()
  local w = td.ui.checkbox{value = true}
  for _, state in ipairs{{value = 3}, {value = "x"}, {nothing = 1},
                         {_model_name = "Evil"}, {}} do
    update(w, state)
  end
  from_page(id_of(w), {})
  from_page(id_of(w), {method = "update", state = 3})
  from_page(id_of(w), {method = "custom"})
  lu.assertEquals(w.value, true)
  local s = td.ui.slider{min = 0, max = 1.0}
  for _, x in ipairs{0 / 0, 1 / 0, -1 / 0} do update(s, {value = x}) end
  lu.assertTrue(s.value >= 0 and s.value <= 1)
  local m = td.ui.select{options = {"a", "b"}}
  update(m, {index = 7})
  lu.assertEquals(m.value, "a")
end

function tests.states_are_told()
  local w = td.ui.text{label = "name", value = "x"}
  messages(service.comm_open, {comm_id = "ctl", data = {},
                               target_name = "jupyter.widget.control"})
  local sent = from_page("ctl", {method = "request_states"})
  local data = sent[1].content.data
  lu.assertEquals(data.method, "update_states")
  local mine = data.states[id_of(w)]
  lu.assertEquals(mine.model_name, "TextModel")
  lu.assertEquals(mine.model_module, "@jupyter-widgets/controls")
  lu.assertEquals(mine.state.value, "x")
  local id = id_of(w)
  sent = messages(w.close, w)
  lu.assertEquals(#sent, 3)
  data = from_page("ctl", {method = "request_states"})[1].content.data
  lu.assertNil(data.states[id])
  service.comm_close{comm_id = "ctl"}
end

function tests.every_kind()
  local n = 0
  local button = td.ui.button("Go", function() n = n + 1 end)
  from_page(id_of(button), {method = "custom", content = {event = "click"}})
  lu.assertEquals(n, 1)
  local select = td.ui.select{label = "m", options = {"a", "b", "c"}}
  update(select, {index = 2})
  lu.assertEquals(select.value, "c")
  select.value = "b"
  lu.assertEquals(tostring(select), "m a (b) c")
  raises("did you mean \"b\"", function() select.value = "bb" end)
  local log = td.ui.slider{min = 1e-4, max = 1, value = 0.01, log = true}
  lu.assertAlmostEquals(log.value, 0.01, 1e-9)
  update(log, {value = 0.1})
  lu.assertEquals(log.value, 0.1)
  local p = td.ui.progress{max = 10}
  p.value = 5
  lu.assertStrContains(tostring(p), "50%")
  local box = td.ui.vbox{td.ui.hbox{select, p}, td.ui.label "end"}
  lu.assertEquals(#box.children, 2)
  lu.assertTrue(box.children[1].children[2] == p)
  lu.assertStrContains(tostring(box), "m a (b) c  [##########----------] 50%\n")
  local out = td.ui.output()
  lu.assertEquals(out:capture(function(x) return x + 1 end, 2), 3)
  update(td.ui.text{}, {value = "é"})
end

function tests.interact()
  local calls = {}
  local box = td.ui.interact(function(v)
    calls[#calls + 1] = v.lr
    return v.name
  end, {lr = {0.0, 1.0, 0.1}, n = 2, name = "x", on = true, of = {"a", "b"}})
  local controls = box.controls
  lu.assertEquals(#box.children, 6)
  lu.assertEquals(calls, {0.0})
  update(controls.lr, {value = 0.5})
  lu.assertEquals(calls, {0.0, 0.5})
  lu.assertEquals(controls.of.value, "a")
  raises("x is a number", td.ui.interact, function() end, {x = print})
end

function tests.an_error_in_a_callback_is_survived()
  local w = td.ui.checkbox{}
  local later = false
  w:on_change(function() error "oops" end)
  w:on_change(function() later = true end)
  local kept = frontend.capture()
  update(w, {value = true})
  local _, stderr = kept:stop()
  lu.assertStrContains(stderr, "oops")
  lu.assertTrue(later)
end

tests.mistakes = helper.each{
  {"did you mean \"value\"", function() return td.ui.slider{}.valeu end},
  {"did you mean \"label\"", function() return td.ui.slider{lable = "x"} end},
  {"above max", function() td.ui.slider{min = 3, max = 1} end},
  {"min above 0", function() td.ui.slider{min = 0, max = 1, log = true} end},
  {"value is a boolean", function() td.ui.checkbox{}.value = 3 end},
  {"must be a string", function() td.ui.label(3) end},
  {"holds widgets; 2 is", function() td.ui.hbox{td.ui.label "a", 3} end},
  {"none of the options", function()
    td.ui.select{options = {"a"}, value = "q"}
  end},
  {"no value that could change", function()
    td.ui.button("x"):on_change(print)
  end},
  {"on_click is for buttons", function() td.ui.text{}:on_click(print) end},
  {"capture is for td.ui.output", function() td.ui.text{}:capture(print) end},
}

return tests
