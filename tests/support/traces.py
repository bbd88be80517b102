"""The public traces, which are no part of the project: tests that need them say why they skip where there are none."""

import pytest

from support.pages import ROOT

TRACES = ROOT.parent / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason="the public traces are not beside the project")
