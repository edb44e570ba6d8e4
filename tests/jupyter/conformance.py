"""jupyter_kernel_test, whole: each of its tests is one here."""
import json
import os
import tempfile
import unittest

import jupyter_kernel_test
from jupyter_client import kernelspec

import kernel as kernels


class Tide(jupyter_kernel_test.KernelTests):
    kernel_name = "tide"
    language_name = "lua"
    file_extension = ".lua"
    code_hello_world = "print 'hello, world'"
    code_stderr = "io.stderr:write 'wrong\\n'"
    completion_samples = [
        {"text": "string.rep", "matches": {"rep"}},
        {"text": "coroutine.cl", "matches": {"close"}},
    ]
    complete_code_samples = ["1 + 1", "print 'x'", "for i = 1, 3 do end",
                             "x = {1,\n2}", "?print"]
    incomplete_code_samples = ["for i = 1, 3 do", "x = {1,", "f(",
                               "s = [[long", "function f()"]
    invalid_code_samples = ["x = = 1", "end", "1 +* 2"]
    code_page_something = "?print"
    code_generate_error = "error 'wrong'"
    code_execute_result = [
        {"code": "6 * 7", "result": "42"},
        {"code": "x = 3\nx + 1", "result": "4"},
        {"code": "return 'a'", "result": '"a"'},
    ]
    code_display_data = [
        {"code": "require('tide').display(require('tide').tensor{1, 2})",
         "mime": "text/plain"},
        {"code": "require('tide').display(require('tide').tensor{1, 2})",
         "mime": "text/html"},
    ]
    code_history_pattern = "6 *"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "print"
    code_clear_output = "require('tide').clear_output()"


class Welcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "tide"
    support_iopub_welcome = True


def install(folder):
    """A kernelspec of the build, for this process and its children."""
    spec = os.path.join(folder, "kernels", "tide")
    os.makedirs(spec)
    tide = os.path.abspath(os.path.join(kernels.Kernel.build, "tide"))
    with open(os.path.join(spec, "kernel.json"), "w", encoding="utf-8") as f:
        json.dump({"argv": [tide, "kernel", "{connection_file}"],
                   "display_name": "Tide", "language": "lua",
                   "interrupt_mode": "message"}, f)
    os.environ["JUPYTER_PATH"] = folder
    os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")
    assert "tide" in kernelspec.find_kernel_specs()


def run_class(which):
    with tempfile.TemporaryDirectory() as folder:
        was = dict(os.environ)
        install(folder)
        try:
            result = unittest.TestResult()
            unittest.TestLoader().loadTestsFromTestCase(which).run(result)
        finally:
            os.environ.clear()
            os.environ.update(was)
    return result


def check(result, count):
    bad = result.failures + result.errors
    assert not bad, "\n".join(f"{t}: {why}" for t, why in bad)
    assert not result.skipped, result.skipped
    assert result.testsRun == count, result.testsRun


def test_the_twelve_of_kernel_tests():
    check(run_class(Tide), 12)


def test_the_welcome():
    check(run_class(Welcome), 1)
