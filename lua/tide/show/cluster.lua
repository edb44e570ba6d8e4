--- show/cluster.lua - a cluster: its tasks and where they listen.
--
-- SPDX-License-Identifier: Apache-2.0

local html = require "tide.show.html"
local style = require "tide.show.style"
local tables = require "tide.show.tables"

local cluster = {}

local MOST = 60 -- tasks that are listed

-- Rows of texts, and how many tasks are left out.
local function rows_of(c)
  local rows, n = {}, 0
  for _, job in ipairs(c:jobs()) do
    for _, task in ipairs(c:tasks(job)) do
      n = n + 1
      if n <= MOST then
        local own = job == c.job and task == c.task
        rows[n] = {job, ("%d"):format(task), c:address(job, task),
                   own and "this process" or ""}
      end
    end
  end
  return rows, n - #rows
end

local function left_out(n) return ("%s tasks more"):format(style.count(n)) end

--- The listing as text.
cluster["text/plain"] = function(c)
  local rows, left = rows_of(c)
  local text = tables.layout(rows, {"job", "task", "address", ""},
                             style.width(), {false, true, false, false})
  return ("%s\n%s%s"):format(c, text, left > 0 and "\n" .. left_out(left)
                                      or "")
end

--- The listing as HTML.
cluster["text/html"] = function(c)
  local rows, left = rows_of(c)
  local lines = {}
  for i, row in ipairs(rows) do
    lines[i] = ("<tr><td style=\"text-align: left\">%s</td><td>%s</td>"
      .. "<td style=\"text-align: left\"><code>%s</code></td><td>%s</td></tr>")
      :format(html.escape(row[1]), row[2], html.escape(row[3]), row[4])
  end
  return ("<div><b>%s</b><table><thead><tr><th style=\"text-align: left\">job"
    .. "</th><th>task</th><th style=\"text-align: left\">address</th><th></th>"
    .. "</tr></thead><tbody>%s</tbody></table>%s</div>"):format(
    html.escape(tostring(c)), table.concat(lines),
    left > 0 and left_out(left) or "")
end

return cluster
