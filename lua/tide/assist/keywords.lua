--- assist/keywords.lua - Lua's reserved words, in a line each.
--
-- SPDX-License-Identifier: Apache-2.0

local keywords = {}

local about = {
  ["and"] = {"a and b", "a when a is nil or false, else b."},
  ["break"] = {"break", "Leaves the innermost loop."},
  ["do"] = {"do ... end", "A block: its locals end with it."},
  ["else"] = {"else", "What is run when no condition of the if holds."},
  ["elseif"] = {"elseif b then ...", "One more condition of an if."},
  ["end"] = {"end", "Ends a block, a loop, an if or a function."},
  ["false"] = {"false", "The boolean; with nil all that is not true."},
  ["for"] = {"for i = first, last, step do ... end\n"
    .. "for k, v in pairs(t) do ... end", "Counts, or walks what an iterator "
    .. "gives."},
  ["function"] = {"function name(a, b, ...) ... end", "Makes a function."},
  ["goto"] = {"goto name", "Jumps to the label ::name::, which is visible."},
  ["if"] = {"if a then ... elseif b then ... else ... end",
            "Runs the first part whose condition holds."},
  ["in"] = {"for k, v in pairs(t) do", "Stands before what a for walks."},
  ["local"] = {"local a, b <const> = 1, 2", "Names that are visible to the end "
    .. "of the block. <const> never change; <close> are closed with the "
    .. "block. In a notebook later cells see those at the top of a cell."},
  ["nil"] = {"nil", "No value."},
  ["not"] = {"not a", "true when a is nil or false."},
  ["or"] = {"a or b", "a unless it is nil or false, else b."},
  ["repeat"] = {"repeat ... until a", "Runs the block until a holds."},
  ["return"] = {"return a, b", "Leaves the function with these results."},
  ["then"] = {"if a then ... end", "Stands behind a condition."},
  ["true"] = {"true", "The boolean."},
  ["until"] = {"repeat ... until a", "Ends the loop when a holds."},
  ["while"] = {"while a do ... end", "Runs the block as long as a holds."},
}

--- All of them, in no order.
keywords.list = {}
for word in pairs(about) do
  keywords.list[#keywords.list + 1] = word
end

--- What is to be said of one, as tide.assist.describe has it.
function keywords.page(word)
  local row = about[word]
  return row and {head = row[1], text = row[2], rows = {}}
end

return keywords
