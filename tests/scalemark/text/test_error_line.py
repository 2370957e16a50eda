"""Of TensorFlow's errors of many lines the one is reported that says something."""

from scalemark.run_folder import last_error
from scalemark.text.untrusted import telling_line

GRAPH = """Graph execution error:

Detected at node CollectiveReduceV2_3 defined at (most recent call last):
<stack traces unavailable>
  File "trainer/towers.py", line 3, in step
Collective ops is aborted by: connection reset by peer
The error could be from a previous operation. Restart your program to reset.
\t [[{{node CollectiveReduceV2_3}}]] [Op:__inference_step_9]"""
TOLD = "Collective ops is aborted by: connection reset by peer"


def test_the_first_line_that_does_not_only_say_where_is_reported():
    assert telling_line(GRAPH) == TOLD
    assert telling_line("\n  no data  \nnor more") == "no data"


def test_an_error_that_only_says_where_is_known_from_its_first_line():
    assert telling_line("Graph execution error:\n\n\t [[{{node add}}]]") == "Graph execution error:"
    assert telling_line("\n") == ""


def test_an_error_that_only_announces_another_is_joined_with_it(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(f"tensorflow.errors.UnavailableError: {GRAPH}\n")
    assert last_error(log) == f"tensorflow.errors.UnavailableError: Graph execution error: {TOLD}"
    log.write_text("tensorflow.errors.UnavailableError: Graph execution error:\n")
    assert last_error(log) == "tensorflow.errors.UnavailableError: Graph execution error:"
    log.write_text("ValueError: no such thing\nbye\n")
    assert last_error(log) == "ValueError: no such thing"
