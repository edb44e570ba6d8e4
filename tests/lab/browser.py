"""browser.py - JupyterLab on a folder of the test's own, and Chromium on it.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

import nbformat
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../notebook"))
from settings import BIN, BUILD, Home, TUTORIALS # pylint: disable=wrong-import-position

SHOTS = os.path.join(BUILD, "lab/shots")
PATIENCE = 60 # seconds for anything to appear


def missing():
    """What of a browser is not installed; "" when all is there."""
    lacking = [p for p in ("chromium", "chromedriver") if not shutil.which(p)]
    return ", ".join(lacking)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """JupyterLab, with the notebooks of `home`."""

    def __init__(self):
        self.home = Home()
        self.notebooks = self.home.path("notebooks")
        os.makedirs(self.notebooks)
        self.port, self.token = free_port(), secrets.token_hex(8)
        self.quiet()
        self.log = open(self.home.path("server.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "jupyter-lab"), "--no-browser", "--allow-root",
             "--expose-app-in-browser", f"--port={self.port}",
             "--ServerApp.port_retries=0",
             f"--IdentityProvider.token={self.token}",
             f"--notebook-dir={self.notebooks}"],
            env=self.home.env, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log.name, encoding="utf-8") as f:
                    raise AssertionError("JupyterLab does not start:\n"
                                         + f.read())
            time.sleep(0.1)

    def answers(self):
        try:
            with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.port}/api?token={self.token}"):
                return True
        except OSError:
            return False

    def quiet(self):
        """Nothing pops up over the page, nothing is asked of the network."""
        self.set("apputils-extension", "notification",
                 {"fetchNews": "false", "checkForUpdates": False})
        with open(os.path.join(HERE, "overrides.json"), encoding="utf-8") as f:
            for name, values in json.load(f).items():
                self.set(*name.removeprefix("@jupyterlab/").split(":"), values)

    def set(self, extension, plugin, values):
        """Settings of one of JupyterLab's plugins, as its user's."""
        folder = self.home.path("config/lab/user-settings/@jupyterlab",
                                extension)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, plugin + ".jupyterlab-settings")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(values, f)

    def url(self, name):
        return (f"http://127.0.0.1:{self.port}/lab/tree/{name}"
                f"?token={self.token}&reset")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.home.close()


class Browser:
    """Chromium without a screen."""

    def __init__(self, server):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--window-size=1280,1000",
                     f"--user-data-dir={server.home.path('chromium')}"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(PATIENCE)
        self.server = server

    def close(self):
        self.driver.quit()

    # ---- waiting ----

    def wait(self, what, condition, seconds=PATIENCE):
        """The condition's first result that is true."""
        end = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except WebDriverException:
                pass # what was looked at is gone already
            if time.monotonic() > end:
                self.shot("failed")
                raise AssertionError(f"no {what} within {seconds} seconds")
            time.sleep(0.1)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def find(self, css, seconds=PATIENCE):
        return self.wait(css, lambda: (self.all(css) or [None])[0], seconds)

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    # ---- the notebook ----

    def open(self, name):
        self.driver.get(self.server.url(name))
        self.find(".jp-NotebookPanel .jp-Notebook .jp-Cell")
        self.wait("idle kernel", self.idle)

    def idle(self):
        return self.js("""
            const w = window.jupyterapp.shell.currentWidget;
            const k = w && w.sessionContext && w.sessionContext.session
              && w.sessionContext.session.kernel;
            return k && k.status == 'idle' && k.connectionStatus
              == 'connected';""")

    def command(self, name):
        """One of JupyterLab's commands, as its menus and keys run them."""
        self.js("window.jupyterapp.commands.execute(arguments[0])", name)

    def end_kernels(self):
        self.driver.execute_async_script("""
            const done = arguments[0];
            window.jupyterapp.serviceManager.sessions.shutdownAll()
              .then(done, done);""")

    def hide_files(self):
        if self.js("return !window.jupyterapp.shell.leftCollapsed"):
            self.command("application:toggle-left-area")

    def cells(self):
        return self.all(".jp-Notebook .jp-CodeCell")

    def cell(self, i):
        return self.wait(f"cell {i}", lambda: self.cells()[i])

    def output(self, i):
        """The text that stands under code cell i."""
        return self.js("""
            const o = arguments[0].querySelector('.jp-OutputArea');
            return o ? o.innerText : '';""", self.cell(i))

    def count(self, i):
        return self.js("""
            return arguments[0].querySelector('.jp-InputPrompt').innerText""",
                       self.cell(i))

    def wait_output(self, i, text, seconds=PATIENCE):
        self.wait(f"\"{text}\" under cell {i}", lambda: text in self.output(i),
                  seconds)

    def wait_done(self, i):
        self.wait(f"end of cell {i}", lambda: self.count(i).strip("[]: ")
                  .isdigit())

    def focus(self, i):
        editor = self.cell(i).find_element(By.CSS_SELECTOR, ".cm-content")
        self.js("arguments[0].scrollIntoView({block: 'center'})", editor)
        editor.click()
        return editor

    def run(self, i):
        self.focus(i)
        self.keys(Keys.CONTROL, Keys.ENTER)

    def keys(self, *together):
        """Keys that are pressed at once."""
        chain = ActionChains(self.driver)
        for k in together[:-1]:
            chain.key_down(k)
        chain.send_keys(together[-1])
        for k in together[:-1]:
            chain.key_up(k)
        chain.perform()

    def type(self, text):
        ActionChains(self.driver).send_keys(text).perform()

    def pictures(self, i):
        """Widths of the pictures under cell i, as they were decoded: 0 is one
        that does not show."""
        return self.js("""
            const area = arguments[0].querySelector('.jp-OutputArea');
            return [...area.querySelectorAll('img')].map(
              e => e.complete ? e.naturalWidth : 0);""", self.cell(i))

    def shot(self, name):
        """A picture of the page as it is, in SHOTS."""
        os.makedirs(SHOTS, exist_ok=True)
        self.driver.save_screenshot(os.path.join(SHOTS, name + ".png"))


def write(folder, name, *cells):
    """A notebook of code cells in the folder."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(c.strip()) for c in cells],
        metadata={"kernelspec": {"name": "tide", "language": "lua",
                                 "display_name": "Tide"}})
    nbformat.write(notebook, os.path.join(folder, name))
    return notebook


@unittest.skipIf(missing(), "not installed: " + missing())
class Case(unittest.TestCase):
    """Tests that share a server and a browser."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.browser = Browser(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.close()

    def tearDown(self):
        self.browser.end_kernels()

    def open(self, *cells):
        """A new notebook of these cells, opened."""
        name = self.id().split(".")[-1] + ".ipynb"
        write(self.server.notebooks, name, *cells)
        self.browser.open(name)
        return self.browser
