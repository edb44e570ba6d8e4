"""engine.py - how papermill finds the translator.

papermill loads engines by their entry points, translators it does not: with this
engine, which is papermill's own under the name "tide", comes the package.

SPDX-License-Identifier: Apache-2.0
"""
from papermill.engines import NBClientEngine


class Engine(NBClientEngine):
    """Runs a notebook."""
