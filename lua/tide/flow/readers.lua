--- flow/readers.lua - td.reader: readers of files, whose names come from a
-- queue.
--
-- A reader is a handle of the graph. What it reads is said by its kind; each
-- read is an op, which takes the next name from the queue when a file is over,
-- and waits for one. A queue that is closed and empty ends that with
-- out_of_range.
-- SPDX-License-Identifier: Apache-2.0

local core = require "tide.core"
local args = require "tide.base.args"
local errors = require "tide.base.errors"

local readers = {}
local methods = {}
local meta = {__index = methods}

local function make(op, attrs, o, what)
  attrs.container, attrs.shared_name = o.container, o.shared_name
  local handle = core.add(op, {}, attrs, o.name or what)
  return setmetatable({handle = handle, kind = what}, meta)
end

--- A reader of lines of text, without their ends (\n, \r\n); keys are
-- "file:line".
-- @param[opt] o skip_header_lines = n: not given, of each file; name,
-- shared_name, container
function readers.text_lines(o)
  o = args.read(o, {"skip_header_lines", "name", "shared_name", "container"},
                "reader.text_lines")
  return make("TextLineReaderV2", {skip_header_lines = o.skip_header_lines}, o,
              "text_lines")
end

--- A reader of TFRecord files; keys are "file:offset". A damaged record raises
-- data_loss.
-- @param[opt] o compression = "", "ZLIB" or "GZIP"; name, shared_name,
-- container
function readers.tf_records(o)
  o = args.read(o, {"compression", "name", "shared_name", "container"},
                "reader.tf_records")
  return make("TFRecordReaderV2", {compression_type = o.compression}, o,
              "tf_records")
end

--- A reader of records of n bytes each; keys are "file:number".
-- @param n bytes of a record
-- @param[opt] o header, footer: bytes before and after all records; hop: bytes
-- from the beginning of one to that of the next (n); compression; name,
-- shared_name, container
function readers.fixed_length(n, o)
  args.expect(n, "integer", "reader.fixed_length: the bytes of a record")
  o = args.read(o, {"header", "footer", "hop", "compression", "name",
                    "shared_name", "container"}, "reader.fixed_length")
  return make("FixedLengthRecordReaderV2", {
    record_bytes = n, header_bytes = o.header, footer_bytes = o.footer,
    hop_bytes = o.hop, encoding = o.compression,
  }, o, "fixed_length")
end

--- A reader of whole files: the key is the name, the value the contents.
function readers.whole_file(o)
  o = args.read(o, {"name", "shared_name", "container"}, "reader.whole_file")
  return make("WholeFileReaderV2", {}, o, "whole_file")
end

--- A reader that opens nothing: key and value are the names themselves.
function readers.identity(o)
  o = args.read(o, {"name", "shared_name", "container"}, "reader.identity")
  return make("IdentityReaderV2", {}, o, "identity")
end

-- ---- reading ----------------------------------------------------------------

-- The handle of a queue object, or a handle.
local function queue_of(q, what)
  local handle = type(q) == "table" and rawget(q, "handle") or q
  if core.kind(handle) ~= "edge" then
    errors.invalid("%s: a queue of file names is needed, given %s", what,
                   args.what(q))
  end
  return handle
end

--- The next record, as graph tensors: its key, its value (string scalars).
-- @param q a queue of strings, the names of files
-- @param[opt] o name
function methods:read(q, o)
  o = args.read(o, {"name"}, "read")
  return core.add("ReaderReadV2", {self.handle, queue_of(q, "read")}, {},
                  o.name)
end

--- Up to n records of one file, as graph tensors: keys, values (string {-1}).
-- @param q a queue of strings, the names of files
-- @param n a number or a graph scalar
-- @param[opt] o name
function methods:read_up_to(q, n, o)
  o = args.read(o, {"name"}, "read_up_to")
  return core.add("ReaderReadUpToV2",
                  {self.handle, queue_of(q, "read_up_to"), n}, {}, o.name)
end

local function unary(op)
  return function(self, o)
    return core.add(op, {self.handle}, {}, args.options(o, op).name)
  end
end

--- How many records it has given: int64 {}.
methods.num_records_produced = unary "ReaderNumRecordsProducedV2"
--- How many files it has read to their end: int64 {}.
methods.num_work_units_completed = unary "ReaderNumWorkUnitsCompletedV2"
--- Where it is, as bytes: string {}. In the midst of a file, too.
methods.serialize_state = unary "ReaderSerializeStateV2"
--- An op after which it begins anew; the file it is in is left.
methods.reset = unary "ReaderResetV2"

--- An op after which it goes on where another was.
-- @param state what serialize_state gave; a string or a graph tensor
function methods:restore_state(state, o)
  o = args.read(o, {"name"}, "restore_state")
  return core.add("ReaderRestoreStateV2", {self.handle, state}, {}, o.name)
end

function meta:__tostring()
  return ("reader %s of %s"):format(self.handle.op.name, self.kind)
end

return readers
