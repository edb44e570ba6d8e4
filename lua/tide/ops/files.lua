--- ops/files.lua - files as nodes of a graph, and found by patterns.
--
-- They are nodes always, of values too: a file is read when a step runs.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local namespace = require "tide.ops"

local ops = namespace.ops

namespace.not_methods{"read_file", "write_file", "matching_files"}

--- The contents of a file, when the step runs: a string {}.
-- @param filename a string, or a graph tensor of one; any file system's path
-- @param[opt] o name
-- @usage #td.read_file("/dev/null"):eval()  --> 0
function ops.read_file(filename, o)
  o = args.read(o, {"name"}, "read_file")
  return core.add("ReadFile", {filename}, {}, o.name)
end

--- The paths that fit a pattern with *, ? and [a-z], or one of several, sorted,
-- when the step runs: a string {-1}.
-- @param pattern a string, a list of them, or a graph tensor
-- @param[opt] o name
-- @usage td.matching_files("/de[v]"):eval():table()[1]  --> /dev
function ops.matching_files(pattern, o)
  o = args.read(o, {"name"}, "matching_files")
  return core.add("MatchingFiles", {pattern}, {}, o.name)
end
