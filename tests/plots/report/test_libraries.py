"""The JavaScript of others that pages bring along is what its makers published."""

import pytest
import vl_convert

from plots.report import libraries
from tests.conftest import PROJECT


@pytest.mark.integration  # making the bundle takes seconds
def test_the_bundle_is_what_the_pinned_vl_convert_makes():
    kept = (PROJECT / "plots" / "report" / "vega.js").read_text(encoding="utf-8")
    assert kept == vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    assert libraries.vega() == kept
