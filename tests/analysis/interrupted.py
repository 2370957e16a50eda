"""A sweep of four trials that ended, or goes on, before all were run."""

from scalemark.host.processes import ProcessIdentity
from scalemark.records.measurement import Outcome
from store.writer import Writer
from tests.analysis.gpu_box import GPU_BOX, PS, on_gpus
from tests.filled import NOON, PLACEMENT, PROCESS, attempt, begin


def interrupted(
    num_done: int, *, name: str = "night", running_by: ProcessIdentity | None = None
) -> None:
    """Run so many of four trials on 1, 2, 4 and 8 GPUs to their end, and interrupt the next;
    `running_by` a process that has the sweep still.
    """
    specs = [on_gpus(num, **PS) for num in (1, 2, 4, 8)]
    writer = Writer("results.db")
    ledger = begin(
        writer,
        dict.fromkeys(specs, 1),
        name=name,
        machine=GPU_BOX,
        process=running_by or PROCESS,
    )
    waiting = {repeat.trial_id: repeat for repeat in ledger.open_repeats()}
    for number, spec in enumerate(specs[: num_done + 1]):
        repeat = waiting[spec.trial_id]
        ledger.claim(repeat)
        ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        throughput = 100.0 * spec.num_gpus if number < num_done else None
        ended = attempt(spec, throughput, outcome=Outcome.INTERRUPTED)
        ledger.finish(repeat.repeat_id, ended)
    if running_by is None:
        ledger.end(NOON, finished=False)
    writer.close()
