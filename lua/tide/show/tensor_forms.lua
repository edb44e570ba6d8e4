--- show/tensor_forms.lua - the forms of values: text and HTML.
--
-- SPDX-License-Identifier: Apache-2.0

return {
  ["text/plain"] = function(t) return require("tide.show.tensor").text(t) end,
  ["text/html"] = function(t) return require "tide.show.tensor_html"(t) end,
}
