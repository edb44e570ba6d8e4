"""tools.py - the programs of Jupyter on the tutorial notebooks: nbclient,
nbconvert, papermill, jupyter run, jupyter console.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import time
import unittest

import nbclient
import nbformat
import pexpect
from jupyter_client import KernelManager

from settings import Home, TUTORIALS

# A parameter that makes a notebook shorter, and what then stands in its output.
SHORTER = {
    "gradients": ("steps", "5", r"\{"),
    "power_method": ("tolerance", "0.001", r"after 1\d turns"),
    "mnist": ("epochs", "1", r"test_accuracy: 0\.\d"),
    "convnet": ("epochs", "1", r"test_accuracy: 0\.\d"),
    "input": ("count", "500", "as before: true"),
    "saving": ("epochs", "2", "the same bits: true"),
    "workers": ("epochs", "1", "1 dead, 1 up"),
}
LEARNS = {"mnist": 0.9, "convnet": 0.9, "input": 0.85,
          "workers": 0.8} # test_accuracy, at least


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def outputs(notebook):
    return [o for cell in notebook.cells if cell.cell_type == "code"
            for o in cell.outputs]


def text_of(notebook):
    """What a terminal would show."""
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "")
                     for o in outputs(notebook))


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Home()
        cls.environ = dict(os.environ)
        os.environ.update(cls.home.env)

    @classmethod
    def tearDownClass(cls):
        os.environ.clear()
        os.environ.update(cls.environ)
        cls.home.close()

    def run_tool(self, *words):
        r = self.home.run(*words)
        self.assertEqual(r.returncode, 0, r.stdout)
        return r.stdout

    def test_there_are_tutorials(self):
        self.assertGreaterEqual(len(TUTORIALS), 5)

    def test_stored_without_outputs(self):
        for path in TUTORIALS:
            with self.subTest(path):
                notebook = nbformat.read(path, 4)
                nbformat.validate(notebook)
                self.assertEqual(outputs(notebook), [])
                self.assertEqual(notebook.metadata.kernelspec.name, "tide")

    def test_nbclient(self):
        for path in TUTORIALS:
            with self.subTest(path):
                notebook = nbformat.read(path, 4)
                nbclient.NotebookClient(notebook, kernel_name="tide",
                                        timeout=120).execute()
                for o in outputs(notebook):
                    self.assertNotEqual(o.output_type, "error")
                    if "data" in o:
                        self.assertIn("text/plain", o.data)
                nbformat.validate(notebook)
                if stem(path) in LEARNS:
                    got = re.search(r"test_accuracy: (\S+)", text_of(notebook))
                    self.assertGreater(float(got[1]), LEARNS[stem(path)])

    def test_nbconvert(self):
        for path in TUTORIALS:
            with self.subTest(path):
                self.run_tool("jupyter", "nbconvert", "--to", "html",
                              "--execute", "--output-dir", self.home.dir, path)
                name = self.home.path(stem(path) + ".html")
                with open(name, encoding="utf-8") as f:
                    html = f.read()
                self.assertIn("<img", html)
                self.assertNotIn("InvalidArgumentError", html)

    def test_papermill(self):
        for path in TUTORIALS:
            name, value, want = SHORTER.get(stem(path), ("anything", "1", "."))
            with self.subTest(path):
                out = self.home.path("out.ipynb")
                self.run_tool("papermill", path, out, "-p", name, value)
                notebook = nbformat.read(out, 4)
                self.assertRegex(text_of(notebook), want)
                injected = [c.source for c in notebook.cells
                            if "injected-parameters" in c.metadata.get("tags", [])]
                self.assertEqual(injected, [f"-- Parameters\n{name} = {value}\n"])

    def test_papermill_tells_of_parameters(self):
        path, = (p for p in TUTORIALS if stem(p) == "gradients")
        said = self.run_tool("papermill", "--help-notebook", path)
        self.assertRegex(said, r"steps: int \(default 60\)\s+how many")

    def test_papermill_sees_errors(self):
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell("error('boom')")],
            metadata={"kernelspec": {"name": "tide", "language": "lua",
                                     "display_name": "Tide"}})
        path = self.home.path("bad.ipynb")
        nbformat.write(notebook, path)
        r = self.home.run("papermill", path, self.home.path("out.ipynb"))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("boom", r.stdout)

    def test_nbconvert_to_script(self):
        self.run_tool("jupyter", "nbconvert", "--to", "script",
                      "--output-dir", self.home.dir, TUTORIALS[0])
        self.assertTrue(os.path.exists(self.home.path(
            stem(TUTORIALS[0]) + ".lua")))

    def test_jupyter_run(self):
        # One file for each cell; they are run in one kernel.
        for path in TUTORIALS:
            with self.subTest(path):
                cells = []
                for cell in nbformat.read(path, 4).cells:
                    if cell.cell_type == "code":
                        cells.append(self.home.path(f"cell{len(cells)}.lua"))
                        with open(cells[-1], "w", encoding="utf-8") as f:
                            f.write(cell.source)
                self.run_tool("jupyter", "run", "--kernel=tide", *cells)

    def test_jupyter_run_sees_errors(self):
        path = self.home.path("bad.lua")
        for code, want in (("error('boom')", "boom"), ("x = = 1", "near")):
            with self.subTest(code):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(code)
                r = self.home.run("jupyter", "run", "--kernel=tide", path)
                self.assertNotEqual(r.returncode, 0)
                self.assertIn(want, r.stdout)

    def test_encrypted(self):
        manager = KernelManager(kernel_name="tide",
                                transport_encryption="required")
        manager.start_kernel()
        client, shown = manager.client(), []
        try:
            with open(manager.connection_file, encoding="utf-8") as f:
                self.assertIn("curve_publickey", json.load(f))
            client.start_channels()
            client.wait_for_ready(timeout=60)
            reply = client.execute_interactive(
                "6 * 7", timeout=60, output_hook=lambda m: shown.append(
                    m["content"].get("data", {}).get("text/plain")))
            self.assertEqual(reply["content"]["status"], "ok")
            self.assertIn("42", shown)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()

    def test_jupyter_execute(self):
        copy = self.home.path("copy.ipynb")
        shutil.copy(TUTORIALS[0], copy)
        self.run_tool("jupyter", "execute", "--inplace", copy)
        self.assertGreater(len(outputs(nbformat.read(copy, 4))), 0)


class Console(unittest.TestCase):
    """jupyter console, behind a pseudo-terminal."""

    def setUp(self):
        self.home = Home()
        env = dict(self.home.env, TERM="xterm", PROMPT_TOOLKIT_NO_CPR="1")
        self.child = pexpect.spawn(
            "jupyter", ["console", "--kernel=tide"], env=env, timeout=60,
            encoding="utf-8", dimensions=(40, 100), cwd=self.home.dir)
        self.child.expect("Tide")
        self.child.expect(r"In .*\[.*1")

    def tearDown(self):
        self.child.close(force=True)
        self.home.close()

    def enter(self, line, *want):
        self.child.send(line)
        self.child.expect_exact(line[-1]) # of the echo, which is in colours
        self.child.send("\r")
        for text in want:
            self.child.expect(text)

    def test_values_errors_and_the_end(self):
        self.enter("6 * 7", r"Out.*42")
        self.child.expect(r"In .*\[.*2")
        self.enter("error 'boom'", "boom")
        self.child.expect(r"In .*\[.*3")
        self.enter("print('said')", r"\nsaid|said\r\n")
        self.child.expect(r"In .*\[.*4")
        self.enter("'hello ' .. td.input 'name? '", "name\\? ")
        self.child.send("moon\r")
        self.child.expect("hello moon")
        self.child.expect(r"In .*\[.*5")
        self.child.send("\x04")
        self.child.expect("exit")
        self.child.send("\r")
        self.child.expect(pexpect.EOF)

    def test_interrupt(self):
        self.enter("io.write('be', 'gun\\n') while true do end", "begun")
        time.sleep(0.5)
        self.child.sendintr() # once: a second one may confuse the console
        self.child.expect("interrupted")
        self.child.expect(r"In .*\[.*2")
        self.enter("'alive'", "Out.*alive")
