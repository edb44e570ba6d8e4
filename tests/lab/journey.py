"""journey.py - what somebody does in JupyterLab, in a real browser.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import time

import nbclient
import nbformat
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browser

TRAINING = '''
local x = td.placeholder("float32", {-1, 4}, "x")
local W = td.variable(td.ones{4, 2}, "W")
local loss = (x:matmul(W) - 1.0):square():mean()
local step = td.train.sgd(0.01):minimize(loss)
local sess = td.session()
sess:init()
td.get_default_graph()
'''
LOOP = '''
local chart = td.chart{title = "loss"}
for i in td.progress(200, {title = "steps"}) do
  local now = sess:run({loss, step}, {[x] = td.value.ones{8, 4}})[1]
  chart:log{loss = now}
  os.execute "sleep 0.02"
end
print "trained"
'''


class Journey(browser.Case):
    def test_run_all_and_again(self):
        b = self.open("local td = require 'tide'", TRAINING, LOOP)
        b.command("notebook:run-all-cells")
        b.wait("picture of the graph", lambda: b.pictures(1) and
               all(b.pictures(1)))
        b.wait_output(2, "steps")
        seen = set()
        while "trained" not in b.output(2):
            if bar := re.search(r"(\d+)/200", b.output(2)):
                seen.add(int(bar[1]))
            time.sleep(0.1)
        self.assertGreaterEqual(len(seen), 4, "the bar does not move")
        self.assertTrue(b.cell(2).find_elements(
            By.CSS_SELECTOR, ".vega-embed, .jp-RenderedVegaCommon5"))
        b.js("arguments[0].scrollIntoView()", b.cell(1))
        b.shot("run_all")
        b.js("arguments[0].scrollIntoView()", b.cell(2))
        b.shot("chart")
        nodes = re.search(r"(\d+) nodes", b.output(1))[1]
        before = b.count(1)
        b.run(1)
        b.wait("another count", lambda: b.count(1) not in (before, "[*]:"))
        self.assertEqual(re.search(r"(\d+) nodes", b.output(1))[1], nodes)

    def test_interrupt(self):
        b = self.open(TRAINING, "while true do sess:run(step, "
                      "{[x] = td.value.ones{8, 4}}) end", "'alive'")
        b.run(0)
        b.wait_done(0)
        b.run(1)
        b.wait("running cell", lambda: "*" in b.count(1))
        time.sleep(0.5)
        b.find("[data-command='notebook:interrupt-kernel'], "
               ".jp-Toolbar-item[data-jp-item-name='interrupt'] button").click()
        b.wait_output(1, "nterrupt")
        b.shot("interrupt")
        b.run(2)
        b.wait_output(2, "alive")

    def test_complete_and_tooltip(self):
        b = self.open("local td = require 'tide'", "1", "2")
        b.run(0)
        b.wait_done(0)
        b.focus(1)
        b.keys(Keys.CONTROL, "a")
        b.type("td.matm")
        b.keys(Keys.TAB)
        b.wait("name", lambda: "td.matmul" in b.cell(1).text or
               any("matmul" in e.text for e in b.all(".jp-Completer-item")))
        if "td.matmul" not in b.cell(1).text:
            b.keys(Keys.ENTER)
        b.wait("completed name", lambda: "td.matmul" in b.cell(1).text)
        b.focus(2)
        b.keys(Keys.CONTROL, "a")
        b.type("td.conv")
        b.keys(Keys.TAB)
        b.find(".jp-Completer-item")
        b.wait("names", lambda: "conv2d" in b.find(".jp-Completer").text)
        # What is known of a name stands beside it; its head is the signature.
        b.wait("signature", lambda: "conv1d(" in b.find(
            ".jp-Completer-docpanel").text)
        b.keys(Keys.ARROW_DOWN)
        b.wait("signature", lambda: "conv2d(" in b.find(
            ".jp-Completer-docpanel").text)
        b.shot("complete")
        b.keys(Keys.ESCAPE)
        b.focus(2)
        b.keys(Keys.CONTROL, "a")
        b.type("td.matmul(")
        b.keys(Keys.SHIFT, Keys.TAB)
        tip = b.find(".jp-Tooltip")
        b.wait("signature", lambda: "matmul" in tip.text.lower())
        b.shot("tooltip")

    def test_errors_show_the_line(self):
        b = self.open("local td = require 'tide'",
                      "local x = 1\ntd.matmul(td.ones{2, 3}, td.ones{2, 3})")
        b.command("notebook:run-all-cells")
        b.wait_output(1, "MatMul")
        self.assertIn("In[2]", b.output(1))
        b.shot("error")

    def test_slider_while_a_step_runs(self):
        b = self.open("local td = require 'tide'", '''
local rate = td.ui.slider{min = 0, max = 100, value = 10, label = "rate"}
td.display(rate)''', '''
local big, sess, seen = td.ones{64, 64}:matmul(td.ones{64, 64}), td.session(), {}
for i = 1, 400 do
  sess:run(big)
  os.execute "sleep 0.02"
  if seen[#seen] ~= rate.value then seen[#seen + 1] = rate.value end
  if #seen > 1 and i > 100 then break end
end
#seen, seen[1], seen[#seen]''')
        b.command("notebook:run-all-cells")
        b.find(".widget-slider")
        b.wait("running cell", lambda: "*" in b.count(2))
        handle = b.find(".noUi-handle, .ui-slider-handle")
        handle.click()
        for _ in range(12):
            b.keys(Keys.ARROW_RIGHT)
            time.sleep(0.05)
        b.shot("slider")
        b.wait_done(2)
        changes, first, last = b.output(2).split()[-3:]
        self.assertGreater(int(changes), 1, "the loop saw no change")
        self.assertEqual(first, "10")
        self.assertGreater(int(last), 10)

    def test_untrusted_pictures(self):
        """A notebook with outputs that somebody else made."""
        name = "stranger.ipynb"
        notebook = browser.write(self.server.notebooks, name, TRAINING, LOOP,
                         "td.image_grid(td.value.ones{4, 8, 8, 1})",
                         "td.value.ones{3, 3}")
        env = dict(os.environ)
        os.environ.update(self.server.home.env)
        try:
            nbclient.NotebookClient(notebook, kernel_name="tide",
                                    timeout=120).execute()
        finally:
            os.environ.clear()
            os.environ.update(env)
        nbformat.write(notebook, os.path.join(self.server.notebooks, name))
        b = self.browser
        b.open(name)
        self.assertFalse(b.js("return window.jupyterapp.shell.currentWidget"
                              ".content.model.cells.get(0).trusted"))
        for i in (0, 2):
            b.wait(f"pictures under cell {i}",
                   lambda i=i: b.pictures(i) and all(b.pictures(i)))
        b.wait("chart", lambda: b.cell(1).find_elements(
            By.CSS_SELECTOR, ".vega-embed canvas, .vega-embed svg, img"))
        self.assertIn("1", b.output(3))
        b.js("arguments[0].scrollIntoView()", b.cell(1))
        b.shot("untrusted")

    def test_tutorials(self):
        """Each runs to its end without an error."""
        for path in browser.TUTORIALS:
            name = os.path.basename(path)
            shutil.copy(path, self.server.notebooks)
            with self.subTest(name):
                b = self.browser
                b.open(name)
                b.hide_files()
                b.command("notebook:run-all-cells")
                last = len(b.cells()) - 1
                b.wait_done(last)
                b.wait("idle kernel", b.idle)
                self.assertEqual(b.all(
                    ".jp-Notebook .jp-RenderedText[data-mime-type="
                    "'application/vnd.jupyter.error']"), [])
                b.js("arguments[0].scrollIntoView({block: 'end'})",
                     b.cell(last))
                time.sleep(0.5) # until it has moved
                b.shot(name.removesuffix(".ipynb"))
                b.end_kernels()
