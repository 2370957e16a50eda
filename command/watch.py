"""Watches a program from its start to its end: its lines, its signals, what it takes."""

import os
import resource
import select
import signal
import subprocess
import time
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from command import children
from scalemark.readers.log_text import Lines
from trainer.watching import telemetry

HEAD_BYTES = 8 * 2**20
TAIL_BYTES = 2**20


class ProgramLog:
    """A log that takes 9 MiB at most, however much is written."""

    def __init__(
        self, path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        """Raises OSError."""
        self._file = path.open("ab")  # after what this process itself has said
        os.fchmod(self._file.fileno(), 0o600)  # a program may print secrets
        self._head_left, self._most_tail = head_bytes, tail_bytes
        self._tail: deque[bytes] = deque()
        self._tail_size = self._num_left_out = 0
        self.begin_bytes = self._file.tell()
        # the chunks of the beginning: where each ends in the file, and when it came
        self.ends_bytes, self.arrivals_s = array("q"), array("d")

    def write(self, chunk: bytes, arrival_s: float) -> None:
        """Write what still belongs to the beginning, and keep the end. Raises OSError."""
        if len(chunk) <= self._head_left:
            begin = self.ends_bytes[-1] if self.ends_bytes else self.begin_bytes
            self.ends_bytes.append(begin + len(chunk))
            self.arrivals_s.append(arrival_s)
        if self._head_left:
            self._file.write(chunk[: self._head_left])
            left = max(0, self._head_left - len(chunk))
            chunk, self._head_left = chunk[self._head_left :], left
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._most_tail:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest)
            self._num_left_out += len(oldest)

    def flush(self) -> None:
        self._file.flush()

    @property
    def is_whole(self) -> bool:
        """Return whether all that was printed stands in the file, and nothing else in between."""
        end = self.ends_bytes[-1] if self.ends_bytes else self.begin_bytes
        return not self._tail and self._file.tell() == end

    def close(self) -> None:
        """Write the end. Raises OSError."""
        tail = b"".join(self._tail)
        cut = max(0, len(tail) - self._most_tail)
        left_out = self._num_left_out + cut
        if left_out:
            self._file.write(f"\n[scalemark: {left_out} bytes are left out here]\n".encode())
        self._file.write(tail[cut:])
        self._file.close()
        self._tail.clear()


LAST_LINES = 400  # kept for finding out why a program ended
_CHUNK_BYTES = 2**20  # as much as the pipe holds
_MOST_PENDING_BYTES = 2**16


class Listener:
    """Takes what a program prints; this one does nothing with it."""

    def take_line(self, line: str, arrival_s: float) -> None:
        """Take a line."""

    def beat(self, now_s: float) -> None:
        """Take that the program printed something since the last beat."""

    def look(self, now_s: float) -> None:
        """Take the time, at least every LOOK_EVERY_S."""


class Output:
    """The output of one program, which is passed on some time after it was read."""

    def __init__(self, descriptor: int, log: ProgramLog, listener: Listener) -> None:
        self.descriptor = descriptor
        self.last_lines = deque[str](maxlen=LAST_LINES)
        self._log, self._listener = log, listener
        self._lines = Lines()
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))
        self._pending: list[tuple[bytes, float]] = []  # chunks, and when they came
        self.num_pending_bytes = 0

    def read(self, now_s: float) -> int | None:
        """Take what is in the pipe; return its bytes, 0 at its end, and None where it is empty."""
        try:
            num_bytes = os.readv(self.descriptor, [self._buffer])
        except BlockingIOError:
            return None
        self._pending.append((bytes(self._buffer[:num_bytes]), now_s))
        self.num_pending_bytes += num_bytes
        return num_bytes

    def read_what_is_there(self, until_s: float) -> None:
        """Empty the pipe, as long as what fills it leaves time for that."""
        while (now_s := time.monotonic()) < until_s and self.read(now_s):
            self.pass_on()

    def pass_on(self) -> None:
        """Log what came, and tell its lines to who listens."""
        for chunk, arrival_s in self._pending:
            self._log.write(chunk, arrival_s)
            self._tell(self._lines.feed(chunk, arrival_s))
        self._pending.clear()
        self.num_pending_bytes = 0

    def look(self, now_s: float) -> None:
        """Hear what came, if anything, and let the listener look."""
        self._listener.look(now_s)
        if self._pending:
            self.pass_on()
            self._log.flush()
            self._listener.beat(now_s)

    def end(self) -> None:
        """Hear the rest, with a last line that nothing ends."""
        self.pass_on()
        self._tell(self._lines.end())
        self._log.flush()

    def _tell(self, lines: Iterable[tuple[str, float]]) -> None:
        for line, arrival_s in lines:
            self.last_lines.append(line)
            self._listener.take_line(line, arrival_s)


KILL_AFTER_S = 2.0  # after SIGTERM; who sent it waits longer, launcher.grace_s, before killing us
LEFT_BEHIND_S = 1.0  # that children may take to end by themselves after the program
BUSY_S = 0.005  # between reads of a stream whose chunks come closer than 1.5 times this
LOOK_EVERY_S = 0.5  # lines that came meanwhile are passed on together: code that slept runs slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """The end of a program."""

    exit_code: int  # -N: by signal N
    started_s: float  # on the monotonic clock
    ended_s: float
    was_interrupted: bool  # by a signal to this process
    left_behind: tuple[str, ...]  # commands of what it had started and did not end
    last_lines: tuple[str, ...]
    num_kernel_kills: int  # in this control group, before the program was started


class Signals:
    """Notes signals instead of obeying them, and wakes whoever polls `descriptor`."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        for descriptor in (self.descriptor, self._writing):
            os.set_blocking(descriptor, False)
        self.seen: list[signal.Signals] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def take(self) -> list[signal.Signals]:
        """Return the signals that came since the last call."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        seen, self.seen = self.seen, []
        return seen

    def _note(self, number: int, _: object) -> None:
        self.seen.append(signal.Signals(number))


@dataclass
class Watch:
    """Follows one program."""

    process: subprocess.Popen[bytes]
    output: Output
    signals: Signals
    spared: Sequence[int]  # processes that are not its own
    was_interrupted: bool = False
    kill_at_s: float | None = None
    looked_s: float = 0.0

    def until_it_ends(self, started_s: float, num_kernel_kills: int) -> ProgramEnd:
        """Read until the program has ended, then end what it left. Raises OSError."""
        poll = select.poll()
        poll.register(self.signals.descriptor, select.POLLIN)
        poll.register(self.output.descriptor, select.POLLIN)
        ended = os.pidfd_open(self.process.pid)
        poll.register(ended, select.POLLIN)
        try:
            ended_s = self._follow(poll, ended)
        finally:
            os.close(ended)
        exit_code = self.process.wait()
        left_behind = self._end_the_rest()
        self.output.read_what_is_there(time.monotonic() + LEFT_BEHIND_S)
        self.output.end()
        return ProgramEnd(
            exit_code=exit_code,
            started_s=started_s,
            ended_s=ended_s,
            was_interrupted=self.was_interrupted,
            left_behind=tuple(left_behind),
            last_lines=tuple(self.output.last_lines),
            num_kernel_kills=num_kernel_kills,
        )

    def _follow(self, poll: select.poll, ended: int) -> float:
        """Return when the program ended; what it has left may go on printing for a moment."""
        last_chunk_s, ended_s = 0.0, float("inf")
        while True:
            wait_s = LOOK_EVERY_S  # no longer than until the next look: a program may print nothing
            if self.kill_at_s is not None:
                wait_s = min(wait_s, max(0.0, self.kill_at_s - time.monotonic()))
            ready = {descriptor for descriptor, _ in poll.poll(wait_s * 1000)}
            now_s = time.monotonic()
            if self.signals.descriptor in ready:
                self._obey(now_s)
            if self.kill_at_s is not None and now_s >= self.kill_at_s:
                children.signal_all(signal.SIGKILL, self.spared)
                self.kill_at_s = now_s + KILL_AFTER_S
            if ended in ready:
                ended_s = min(ended_s, now_s)
            if self.output.descriptor in ready and now_s < ended_s + LEFT_BEHIND_S:
                if self.output.read(now_s) == 0:
                    poll.unregister(self.output.descriptor)
                elif now_s - last_chunk_s < 1.5 * BUSY_S:
                    time.sleep(BUSY_S)
                last_chunk_s = now_s
            elif ended in ready:
                return ended_s
            if now_s - self.looked_s >= LOOK_EVERY_S:
                self.looked_s = now_s
                self.output.look(now_s)
            elif self.output.num_pending_bytes > _MOST_PENDING_BYTES:
                self.output.pass_on()

    def _obey(self, now_s: float) -> None:
        """Pass signals on: SIGINT to the program's group, as a terminal does, others to all."""
        for which in self.signals.take():
            self.was_interrupted = True
            if which == signal.SIGINT:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, which)
            else:
                children.signal_all(which, self.spared)
                self.kill_at_s = self.kill_at_s or now_s + KILL_AFTER_S

    def _end_the_rest(self) -> list[str]:
        """Give what the program had started a moment to end, then kill it."""
        until_s = time.monotonic() + (0.0 if self.was_interrupted else LEFT_BEHIND_S)
        while time.monotonic() < until_s:
            if not children.living(self.spared):
                return []
            self.output.read_what_is_there(until_s)
            time.sleep(0.01)
        return children.end_all(self.spared)


LEAST_INTERVAL_S = 0.5
_SHARE_OF_TIME = 0.002  # of one core, that looking may take
_PER_RUN = 100  # looks in a run so far, where it is long


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenResources:
    """What a program took in its measured window."""

    cpu_s: float
    cores_taken_by_others: float | None  # None where the kernel does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A look at what a program has taken so far."""

    cpu_s: float
    host: telemetry.HostMoment


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """All looks at a program, in their order."""

    peak_bytes: int  # largest sum of resident sizes seen
    moments: tuple[Moment, ...]

    def taken(self, start_s: float, end_s: float) -> TakenResources | None:
        """Return what was taken between two moments of the monotonic clock, by the looks around
        them; None with fewer than two.
        """
        moments = self.moments
        before = [moment for moment in moments if moment.host.time_s <= start_s] or moments[:1]
        after = [moment for moment in moments if moment.host.time_s >= end_s] or moments[-1:]
        first, last = before[-1], after[0]
        if first is last:
            return None
        between_s = last.host.time_s - first.host.time_s
        share = (end_s - start_s) / between_s if between_s > 0 else 0.0
        return TakenResources(
            cpu_s=max(0.0, last.cpu_s - first.cpu_s) * share,
            cores_taken_by_others=telemetry.cores_taken_by_others(first.host, last.host),
        )


class Moments:
    """Looks at all processes of a program now and then. `spared` are ours: they are not counted."""

    def __init__(self, spared: Collection[int]) -> None:
        self._peak_bytes = 0
        self.spared = spared
        self._own_s = _ended_children_s()  # of what this process had run before
        self._began_s = time.monotonic()
        self._due_s = 0.0
        self._moments: list[Moment] = []
        self._note(())  # nothing of it runs yet

    def look_if_due(self, now_s: float) -> None:
        if now_s >= self._due_s:
            self.look()

    def look(self) -> None:
        """Count now. It takes 10 us per process of the host."""
        start_s = time.thread_time()  # of this thread: waiting for a busy core is no cost
        self._note(children.descendants(self.spared))
        cost_s = time.thread_time() - start_s
        end_s = time.monotonic()
        interval_s = max(
            LEAST_INTERVAL_S,
            cost_s / _SHARE_OF_TIME,
            (end_s - self._began_s) / _PER_RUN,
        )
        self._due_s = end_s + interval_s

    def end(self) -> Looks:
        """Count once more, when all processes have ended."""
        self._note(())
        return Looks(peak_bytes=self._peak_bytes, moments=tuple(self._moments))

    def _note(self, living: Collection[psutil.Process]) -> None:
        living_s, resident_bytes = 0.0, 0
        for process in living:
            with suppress(psutil.Error), process.oneshot():  # it has ended
                resident_bytes += process.memory_info().rss
                times = process.cpu_times()
                living_s += times.user + times.system
                living_s += times.children_user + times.children_system
        self._peak_bytes = max(self._peak_bytes, resident_bytes)
        cpu_s = living_s + _ended_children_s() - self._own_s
        # of the trial's processes this one is one, too: nobody else takes its time
        host = telemetry.now(lambda: cpu_s + time.process_time())
        self._moments.append(Moment(cpu_s=cpu_s, host=host))


def _ended_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
