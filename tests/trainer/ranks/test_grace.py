"""How long a supervisor waits for other ranks once worker 0 has ended."""

from scalemark.records.attempt import WORKER_0, Cluster, Rank
from trainer.supervision import finish

WORKER_1 = Rank(job_name="worker", task_index=1)


class Started:
    """Two ranks, of which worker 1 ends at a look, or never."""

    cluster = Cluster(worker_hosts=("a:1", "b:1"), ps_hosts=())

    def __init__(self, ends_at_look=None):
        self._ends_at_look, self._looks = ends_at_look, 0

    def look(self, timeout_s):
        self._looks += 1
        return {WORKER_1: 0} if self._looks == self._ends_at_look else {}


def test_the_others_mayfinish():
    exit_codes = {WORKER_0: 0}
    finish(Started(ends_at_look=2), exit_codes, grace_s=60.0)
    assert exit_codes == {WORKER_0: 0, WORKER_1: 0}


def test_one_that_goes_on_is_not_waited_for():
    exit_codes = {WORKER_0: 0}
    finish(Started(), exit_codes, grace_s=0.01)
    assert exit_codes == {WORKER_0: 0}
