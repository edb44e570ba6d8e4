--- help/manual.lua - the whole reference as Markdown, HTML and a manual page.
--
-- The text is that of td.help: doc comments, the registry, the codes of errors.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local errors = require "tide.base.errors"
local help = require "tide.help.help"
local reference = require "tide.help.reference"
local args = require "tide.base.args"

local manual = {}

-- ---- what is in it --------------------------------------------------------

-- The section with that title in a list, made when it is not there.
local function section_of(list, title, intro)
  for _, section in ipairs(list) do
    if section.title == title then return section end
  end
  local section = {title = title, intro = intro, rows = {}}
  list[#list + 1] = section
  return section
end

local function add_row(section, entry)
  local row = help.parts(entry)
  row.name = entry.name
  section.rows[#section.rows + 1] = row
end

-- The first sentence of what a module is about, as a title.
local function title_of(module)
  local text = reference.about(module)
  text = text:gsub("\n\n.*", ""):gsub("\n", " "):gsub("%.$", "")
  return (text:gsub("^%l", string.upper))
end

local function add_functions(all)
  local list = {}
  for _, name in ipairs(reference.names()) do
    local entry = reference.entry(name)
    if entry.module then
      local module = entry.module
      add_row(section_of(list, title_of(module), reference.about(module):match
        "\n\n(.*)$"), entry)
    end
  end
  table.sort(list, function(a, b) return a.title < b.title end)
  table.move(list, 1, #list, #all + 1, all)
end

local function add_ops(list)
  for _, type in ipairs(core.op_names()) do
    local info = core.op_info(type)
    if type:sub(1, 1) ~= "_" then
      local name = info.lua ~= "" and info.lua or "raw." .. type
      local entry = reference.entry(name)
      if entry.kind ~= "op" then entry = reference.entry("raw." .. type) end
      add_row(section_of(list, "Ops: " .. info.section), entry)
    end
  end
end

local function add_errors(list)
  local section = section_of(list, "Error codes", "What the field `code` of "
    .. "an error holds.")
  for _, code in ipairs(args.sorted_keys(errors.codes)) do
    add_row(section, reference.entry(code))
  end
end

local function add_commands(list, usage)
  local section = section_of(list, "The command", "What `tide` takes.")
  if usage then
    section.rows[1] = {name = "tide", call = "tide", text = "", example = "",
                       facts = {(usage:gsub("%s+$", ""))}}
  end
  for _, command in ipairs(reference.commands()) do
    section.rows[#section.rows + 1] = {name = "tide " .. command.name,
      call = "tide " .. command.name, text = command.text, facts = {},
      example = ""}
  end
end

--- The sections of the reference: {title, intro, rows}; a row has name, call,
-- text, facts and example.
-- @param[opt] usage what `tide --help` prints
function manual.sections(usage)
  local list = {}
  add_commands(list, usage)
  add_functions(list)
  add_ops(list)
  add_errors(list)
  return list
end

-- ---- Markdown -------------------------------------------------------------

local function fenced(lines, language, text)
  lines[#lines + 1] = ("```%s\n%s\n```\n"):format(language, text)
end

--- The sections as Markdown.
function manual.markdown(sections)
  local lines = {"# Tide: the reference\n"}
  for _, section in ipairs(sections) do
    lines[#lines + 1] = "## " .. section.title .. "\n"
    if section.intro then lines[#lines + 1] = section.intro .. "\n" end
    for _, row in ipairs(section.rows) do
      lines[#lines + 1] = "### `" .. row.call .. "`\n"
      if row.text ~= "" then lines[#lines + 1] = row.text .. "\n" end
      if #row.facts > 0 then
        fenced(lines, "", table.concat(row.facts, "\n"))
      end
      if row.example ~= "" then fenced(lines, "lua", row.example) end
    end
  end
  return table.concat(lines, "\n")
end

-- ---- HTML -----------------------------------------------------------------

local entities = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
                  ['"'] = "&quot;"}

local function escaped(text)
  return (text:gsub('[&<>"]', entities))
end

local HEAD = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Tide: the reference</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; }
pre { background: #f4f4f4; padding: 0.5em; white-space: pre-wrap; }
h3 { font: bold 16px monospace; margin-bottom: 0; }
nav a { margin-right: 0.6em; }
</style>
</head>
<body>
<h1>Tide: the reference</h1>
]]

-- Where a row can be linked to.
local function anchor(name) return (name:gsub("[^%w.]", "-")) end

local function html_index(lines, sections)
  for _, section in ipairs(sections) do
    lines[#lines + 1] = "<h4>" .. escaped(section.title) .. "</h4>\n<nav>"
    for _, row in ipairs(section.rows) do
      lines[#lines + 1] = ('<a href="#%s">%s</a>'):format(anchor(row.name),
                                                          escaped(row.name))
    end
    lines[#lines + 1] = "</nav>"
  end
end

local function html_row(lines, row)
  local function add(...) lines[#lines + 1] = table.concat{...} end
  add('<h3 id="', anchor(row.name), '">', escaped(row.call), "</h3>")
  if row.text ~= "" then
    add("<p>", (escaped(row.text):gsub("\n\n", "</p><p>")), "</p>")
  end
  if #row.facts > 0 then
    add("<pre>", escaped(table.concat(row.facts, "\n")), "</pre>")
  end
  if row.example ~= "" then add("<pre>", escaped(row.example), "</pre>") end
end

--- The sections as one page of HTML.
function manual.html(sections)
  local lines = {HEAD}
  html_index(lines, sections)
  for _, section in ipairs(sections) do
    lines[#lines + 1] = "<h2>" .. escaped(section.title) .. "</h2>"
    if section.intro then
      lines[#lines + 1] = "<p>" .. escaped(section.intro) .. "</p>"
    end
    for _, row in ipairs(section.rows) do html_row(lines, row) end
  end
  lines[#lines + 1] = "</body>\n</html>\n"
  return table.concat(lines, "\n")
end

-- ---- the manual page ------------------------------------------------------

local MAN = [=[
.TH TIDE 1 "" "Tide %s" "User Commands"
.SH NAME
tide \- a dataflow engine driven by Lua
.SH SYNOPSIS
.B tide
[options] [FILE.lua [args]]
.br
.B tide
COMMAND [args]
.SH DESCRIPTION
Builds and runs graphs of tensor operations: a script, an expression, or a
prompt on a terminal.
At the prompt ?NAME tells about an op, a function, a method or an error code,
%%keys about the keys.
.SH OPTIONS
.nf
%s
.fi
.SH COMMANDS
%s
.SH EXIT STATUS
0 success, 1 an error in the script, 2 wrong usage, 75 told to stop by a signal
with all saved, to be started again, 130 interrupted.
.SH ENVIRONMENT
.TP
.B TIDE_DATA
where data sets are looked for
.TP
.B TIDE_EDIT
the prompt's keys: emacs or vi, in place of editing-mode in ~/.inputrc
.TP
.B TIDE_DUMP
a directory for the graph after each planning pass
.TP
.B TIDE_ISA
the processor features to use
.TP
.B TIDE_LUA
a directory to load the Lua library from, in place of the one built in
.SH EXAMPLES
.nf
tide \-e 'local td = require "tide"; print(td.tensor{1, 2} * 3)'
tide ops MatMul
.fi
.SH SEE ALSO
.BR lua5.4 (1)
]=]

-- Text as roff takes it: no backslash, no dot or quote that begins a line.
local function roff(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-")
  return ("\n" .. text):gsub("\n([.'])", "\n\\&%1"):sub(2)
end

--- tide.1, with what `tide --help` prints as its options.
function manual.man(usage)
  local commands = {}
  for i, command in ipairs(reference.commands()) do
    commands[i] = (".TP\n.B tide %s\n%s"):format(command.name,
      roff((command.text:gsub("\n\n", "\n"))))
  end
  local options = (usage or ""):gsub("^[^\n]*\n+", ""):gsub("%s+$", "")
  return MAN:format(core.version, roff(options), table.concat(commands, "\n"))
end

return manual
