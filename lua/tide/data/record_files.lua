--- data/record_files.lua - TFRecord files: written, and read record by record.
--
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"

local record_files = {}
local methods = {}
local meta = {__index = methods}

local function compression_of(o, what)
  if o.compression == nil then return "" end
  return args.expect(o.compression, "string", what .. ": compression")
end

-- ---- writing ----------------------------------------------------------------

--- A writer of a TFRecord file, which is emptied or made; close it, or declare
-- it `<close>`.
-- @param path the file's; any file system's
-- @param[opt] o compression = "", "ZLIB" or "GZIP"
-- @usage local w <close> = td.record_writer(path); w:write("moon")
function record_files.record_writer(path, o)
  args.expect(path, "string", "record_writer: the path")
  o = args.read(o, {"compression"}, "record_writer")
  return setmetatable({path = path, writer =
    core.record_writer(path, compression_of(o, "record_writer"))}, meta)
end

--- Appends a record, a string of any bytes (a value of dtype string too).
-- After an error the writer takes no more.
function methods:write(record)
  if core.kind(record) == "tensor" then record = record:item() end
  self.writer:write(args.expect(record, "string", "write: a record"))
end

--- Others see what was written.
function methods:flush()
  self.writer:flush()
end

--- Writes what is held and ends the file; raises if that fails. Again: nothing.
function methods:close()
  self.writer:close()
end

meta.__close = methods.close

function meta:__tostring()
  return ("record writer of '%s'"):format(self.path)
end

-- ---- reading ----------------------------------------------------------------

--- What td.data.read_records does, its options known.
function record_files.read_records(path, o)
  args.expect(path, "string", "read_records: the path")
  args.expect_all(o, {skip_errors = "integer", limit = "integer"})
  if o.limit then args.expect_positive(o.limit, "read_records: limit") end
  local file = core.records(path, compression_of(o, "read_records"),
                            o.skip_errors or 0, o.limit or 0)
  local closing = setmetatable({}, {__close = function() file:close() end})
  return function() return file:next() end, nil, nil, closing
end

return record_files
