"""journey_debugger.py - what somebody does with JupyterLab's debugger.

SPDX-License-Identifier: Apache-2.0
"""
import time

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import browser

CELL = """
function add(a, b)
  local sum = a + b
  return sum
end
local x = 1
x = add(x, 2)
y = x * 2
y
"""


class Debugging(browser.Case):
    def start(self, *cells):
        b = self.open(*cells)
        b.hide_files()
        b.find(".jp-DebuggerBugButton:not(.disabled)").click()
        b.wait("debugger", lambda: b.js("""
            return document.querySelector('.jp-DebuggerBugButton')
              .getAttribute('aria-pressed') == 'true'"""))
        b.find(".jp-DebuggerSidebar jp-button[data-command="
               "'debugger:evaluate']:not([disabled])")
        return b

    def end(self):
        b = self.browser
        b.find(".jp-DebuggerBugButton").click()
        b.wait("no gutter", lambda: not b.all(".cm-breakpoint-gutter"))

    def click_gutter(self, i, line):
        """Sets or removes the breakpoint of a line of code cell i."""
        b = self.browser
        b.wait("gutter", lambda: len(b.cell(i).find_elements(
            By.CSS_SELECTOR, ".cm-breakpoint-gutter .cm-gutterElement"))
               > line)
        before = len(b.all(".jp-DebuggerBreakpoint"))
        b.cell(i).find_elements(
            By.CSS_SELECTOR, ".cm-breakpoint-gutter .cm-gutterElement")[
                line].click()
        b.wait("breakpoint", lambda: len(b.all(".jp-DebuggerBreakpoint"))
               != before)

    def press(self, command):
        self.browser.find(".jp-DebuggerSidebar [data-command="
                          f"'debugger:{command}']").click()

    def stack(self):
        return [e.text.split("\n") for e in self.browser.all(
            ".jp-DebuggerCallstackFrame")]

    def lines(self):
        """Of the stack, the innermost first."""
        return [int(f[-1].split(":")[-1]) for f in self.stack()]

    def halted(self, *lines):
        """Waits until it is halted there."""
        b = self.browser

        def there():
            shown = b.all(".jp-Notebook .jp-DebuggerEditor-highlight")
            return self.lines() == list(lines) and shown
        b.wait(f"halt in {lines}", there)

    def variables(self, scope):
        """What the panel of variables shows: {name: value}."""
        b = self.browser
        Select(b.find(".jp-DebuggerVariables-toolbar select")
               ).select_by_visible_text(scope)
        return b.js("""
            const shown = {};
            for (const e of document.querySelectorAll(
                '.jp-DebuggerVariables jp-tree-view > jp-tree-item')) {
              const part = s => e.querySelector(
                ':scope > .jp-DebuggerVariables-' + s).innerText;
              shown[part('name')] = part('detail');
            }
            return shown;""")

    def test_halt_and_step(self):
        b = self.start(CELL, CELL.replace("* 2", "* 3"))
        self.click_gutter(0, 6)
        b.run(0)
        self.halted(6)
        b.wait("x", lambda: self.variables("Locals").get("x") == "1")
        self.assertIn("add", self.variables("Globals"))
        b.shot("debugger_halt")
        self.press("stepIn")
        self.halted(2, 6)
        self.assertEqual([f[0] for f in self.stack()], ["add", "cell"])
        b.wait("locals", lambda: self.variables("Locals")
               == {"a": "1", "b": "2"})
        self.press("next")
        self.halted(3, 6)
        b.wait("sum", lambda: self.variables("Locals").get("sum") == "3")
        b.shot("debugger_step")
        self.press("stepOut")
        b.wait("cell", lambda: self.lines() in ([6], [7]))
        if self.lines() == [6]:  # the rest of the line that called
            self.press("next")
        self.halted(7)
        b.wait("x", lambda: self.variables("Locals").get("x") == "3")
        self.press("continue")
        b.wait_output(0, "6")
        b.wait("nothing halted", lambda: not self.stack())
        b.run(1)                # no breakpoint, and no step left over
        b.wait_output(1, "9")
        self.end()
        b.run(0)
        b.wait("another run", lambda: b.count(0) == "[3]:")
        self.assertFalse(b.all(".jp-DebuggerEditor-highlight"))

    def test_interrupt_while_halted(self):
        b = self.start(CELL, "'alive'")
        self.click_gutter(0, 2)
        b.run(0)
        self.halted(2, 6)
        b.command("notebook:interrupt-kernel")
        b.wait_output(0, "nterrupt")
        b.wait("nothing halted", lambda: not self.stack())
        b.shot("debugger_interrupt")
        b.run(1)
        b.wait_output(1, "alive")

    def test_pause_a_loop(self):
        b = self.start("stop = false\nwhile not stop do\n  n = (n or 0) + 1\n"
                       "end\n'left'")
        b.run(0)
        b.wait("running cell", lambda: "*" in b.count(0))
        time.sleep(0.5)
        self.press("continue")  # which pauses what runs
        b.wait("halt", self.stack)
        self.evaluate("n > 0 and 'counts' or 'stands'")
        b.wait("result", lambda: "counts" in b.find(".jp-DebugConsole").text)
        b.shot("debugger_evaluate")
        self.evaluate("stop = true")
        b.wait("variable", lambda: self.variables("Globals").get("stop")
               == "true")
        self.press("continue")
        b.wait_output(0, "left")

    def evaluate(self, code):
        b = self.browser
        if not b.all(".jp-DebugConsole"):
            self.press("evaluate")
        b.find(".jp-DebugConsole .jp-CodeConsole-promptCell .cm-content"
               ).click()
        b.type(code)
        b.keys(Keys.SHIFT, Keys.ENTER)
        return b

    def test_uncaught_error(self):
        b = self.start("local ok = pcall(error, 'caught')\n"
                       "local function f(t)\n  return t.field.deep\nend\n"
                       "f{left = 1}")
        b.find("jp-button.jp-PauseOnExceptions:not(.disabled)").click()
        b.find(".jp-PauseOnExceptions-menu .lm-Menu-item").click()
        b.run(0)
        self.halted(3, 5)
        b.wait("t", lambda: "t" in self.variables("Locals"))
        b.shot("debugger_error")
        self.press("continue")
        b.wait_output(0, "field 'field'")

    def test_restart(self):
        b = self.start(CELL)
        self.click_gutter(0, 7)
        b.run(0)
        self.halted(7)
        b.command("debugger:restart-debug") # which runs all cells
        b.find(".jp-Dialog .jp-mod-accept, .jp-Dialog .jp-mod-warn").click()
        b.wait("nothing halted", lambda: not self.stack())
        self.halted(7)
        self.press("continue")
        b.wait_output(0, "6")
