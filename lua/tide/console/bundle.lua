--- console/bundle.lua - a value in the forms it can be shown in.
--
-- SPDX-License-Identifier: Apache-2.0

local json = require "tide.json"

--- {data = {[mime type] = text}, metadata = {}} of any value.
return function(x)
  return {data = {["text/plain"] = tostring(x)}, metadata = json.object{}}
end
