"""Finds the steps and the rates of lines, and groups numbers between the same words."""

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise

from scalemark.readers import words
from scalemark.readers.kinds.bars import BEFORE_RATE, bar_of, other_of

_LABEL = re.compile(
    r"(?<![A-Za-z])(?<!micro[_ -])(?<![ftsi]ps )(?<!rate )(?<!speed )"
    r"((?:completed |global[_ ]?|num_|train[_ ]?)?"
    r"(?:updates?|up\.|steps?|iter(?:ation)?s?|it|batch|mini[-_ ]?batch)(?![A-Za-z])(?:\(train\))?"
    r"[^\w\s]*\s*[^\w\s]*\s*)"
    r"(\d[\d,]*+)(?![\d.]*\d%|\.\d| and \d|\s*[A-Za-z]+\s?/\s?s(?:ec)?(?:ond)?\b(?!\s*[:=]|\s+\d))",
    re.IGNORECASE,
)
_WITH_EPOCH = (
    r"(?:Train|Epoch)[\w ]*(?:\(train\))?:?\s*\[?(?P<epoch>\d+)(?:/\d+)?\]?:?,?\s*"
    r"\[\s*(?P<step>\d+)/(?P<epoch_steps>\d+)",
    r"\[(?P<epoch>\d{1,9})\]\s*\[\s*(?P<step>\d+)/\s*(?P<epoch_steps>\d+)\]",
    r"[Ee]poch\s*\[(?P<epoch>\d+)\]\s*Batch\s*\[(?P<step>\d+)\]",
    r"[Ee]poch:?\s*(?P<epoch>\d+)\s*[-|,:]?\s*(?:iter|step|batch)\w*:?\s*"
    r"(?P<step>\d+)/(?P<epoch_steps>\d+)",
)
_OF_TOTAL = r"[\[(]\s*(?P<step>\d+)/\d+\s*[\])]"
_WITHOUT_WORDS = (
    r"\bsteps \d+ and (?P<step>\d+)",  # of Keras' TimeHistory: a rate between two steps
    r"\|\s*(?P<step>\d+)/\d+\s\[",  # of a progress bar
    r"^\s*(?P<step>\d{1,9})(?![\d./,%-]|:\d)",  # longer ones are a time
    r"(?<![\d./-])(?P<step>\d+)\s*/\s*\d+(?![\d/])",
    r"(?<![\d./-])\d+/(?P<step>\d+)(?![\d/])",  # only where it grows: else it is the total
    r"\[\s*(?P<step>\d{1,9})\]",
    r"\b(?P<step>\d+)\s?(?:it|iters?|iterations?|steps?)\b(?!/s)",
)
_EXAMPLES = (  # lines without a rate of PyTorch's examples and tutorials, and what they count
    (
        r"Train Epoch:\s*(?P<epoch>\d+)\s*\[\s*(?P<step>\d+)/(?P<epoch_steps>\d+)\s*\(\s*\d+%\)\]"
        r"\s*Loss:\s*(?P<loss>\S+)",
        "samples",
    ),
    (r"loss:\s*(?P<loss>\S+)\s*\[\s*(?P<step>\d+)/\s*(?P<epoch_steps>\d+)\]", "samples"),
    (r"\[(?P<epoch>\d+),\s*(?P<step>\d+)\]\s*loss:\s*(?P<loss>\S+)", ""),
)
_LABEL_OF_TOTAL = re.compile(rf"{_LABEL.pattern}(\s*/\s*\d+|)", re.IGNORECASE)
_SPECIAL = frozenset(".^$*+?{}[]\\|()")
_TOKEN = re.compile(r"\d+|\s+|['\"]|.", re.DOTALL)
_NEARLY_ALL = 0.9
_LEAST_ALONE = 3  # lines with a step and no rate, to be taken for those of training
MOST_ABOVE = 40  # lines between that of the step and that of the rate
_END = "\x1e"  # of a line, which no pattern reaches over


def step_pattern(lines: Sequence[str]) -> str | None:
    """Return a pattern of the step in lines of one kind; None where they have none that grows."""
    growing: list[str] = []
    forms = [*_WITH_EPOCH]  # then those with a word, and those without
    if lines:
        forms += map(_labelled, _LABEL.finditer(lines[-1]))
    if len(lines) > 1:
        forms += _WITHOUT_WORDS
    for pattern in forms:
        steps = steps_of(pattern, lines)
        if len(steps) < _NEARLY_ALL * len(lines):
            continue
        if "epoch" in pattern or rises(steps):
            return pattern
        if grows(steps) or begins_anew(steps):
            growing.append(pattern)
    return growing[0] if growing else None


def counts_epochs(pattern: str, line: str) -> bool:
    """Return whether the step that a pattern finds in a line is the number of an epoch."""
    match = re.search(pattern, line)
    return bool(match and _OF_EPOCH.search(line[: match.start("step")]))


def step_pattern_above(lines: Sequence[str], places: Sequence[int]) -> str | None:
    """Return a pattern of the step in lines that stand above those at `places`, the nearest."""
    above = [_END.join(lines[max(0, place - MOST_ABOVE) : place][::-1]) for place in places]
    patterns: list[str] = []
    for line in _END.join(above[:3]).split(_END):
        patterns += map(_labelled, _LABEL.finditer(line))
        if re.search(_OF_TOTAL, line):
            patterns.append(_OF_TOTAL)
    for pattern in dict.fromkeys(patterns):
        steps = steps_of(pattern, above)
        if len(steps) >= _NEARLY_ALL * len(above) and rises(steps):
            return pattern
    return None


def step_pattern_alone(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return a pattern of the step that most lines have, and the item where it counts these."""
    for pattern, item in _EXAMPLES:
        steps = steps_of(pattern, lines)
        if len(steps) >= _LEAST_ALONE and begins_anew(steps):
            return pattern, item
    numbers: dict[str, list[str]] = {}
    for line in lines:
        for match in _LABEL_OF_TOTAL.finditer(line):
            at_start = "" if line[: match.start()].strip() else r"^\s*"
            numbers.setdefault(at_start + _labelled(match), []).append(match[2] + match[3])
    for pattern in sorted(numbers, key=lambda pattern: len(numbers[pattern]), reverse=True):
        steps = [words.whole(text.partition("/")[0]) or 0 for text in numbers[pattern]]
        # of `Batch 0/100`, `Batch 0/200` the second is the step, and the first the epoch
        is_step = len(set(numbers[pattern])) < 2 * len(set(steps))
        if is_step and len(steps) >= _LEAST_ALONE and grows(steps) and begins_anew(steps):
            return pattern, ""
    return None


def literal(text: str) -> str:
    """Return a pattern for a text in which digits, spaces and quotes may differ."""
    out = ""
    for token in _TOKEN.findall(text):
        if token.isdigit():
            out += r"\d+"
        elif token.isspace():
            out += r"\s+"
        elif token in "'\"":
            out += r"\W"  # quotes would have to be escaped on a command line
        else:
            out += f"\\{token}" if token in _SPECIAL else token
    return re.sub(r"^\\s\+|\\s\+$", r"\\s*", out)


def _labelled(match: re.Match[str]) -> str:
    before = match.string[: match.start()]
    boundary = "(?<![A-Za-z])" if before.endswith("_") else r"\b"
    return rf"{boundary}{literal(match[1])}(?P<step>[\d,]+)"


def steps_of(pattern: str, lines: Sequence[str]) -> list[int]:
    matches = filter(None, map(re.compile(pattern).search, lines))
    steps = [words.whole(match["step"]) for match in matches]
    return [step for step in steps if step is not None]


def rises(values: Sequence[float]) -> bool:
    """Return whether values go up from line to line."""
    return all(after > before for before, after in pairwise(values))


def grows(steps: Sequence[float]) -> bool:
    """Return whether steps go up but for a few; the same step may be of several ranks."""
    num_falls = sum(after < before for before, after in pairwise(steps))
    return _rises_once(steps) and num_falls <= len(steps) // 10


def begins_anew(steps: Sequence[float]) -> bool:
    """Return whether steps go up, and begin anew at a few places, as where an epoch begins."""
    falls = [(before, after) for before, after in pairwise(steps) if after < before]
    is_of_epochs = all(after <= before / 2 for before, after in falls)
    return _rises_once(steps) and len(falls) <= len(steps) // 2 and is_of_epochs


def _rises_once(steps: Sequence[float]) -> bool:
    return any(after > before for before, after in pairwise(steps))


_MOST_RATES = 24  # of a line
_MOST_BEGIN = 40
_MOST_NUMBERS = 5  # in a row, between which only units stand
APART = 1.05  # columns whose medians differ by less say the same
_UNIT = re.compile(
    r"\s?(?:(?:[kKM]|thousand|million) (?=\w+ ?(?:/|per )))?(?:[A-Za-zµ]+|(?=/))"
    r"(?:\s?/\s?[A-Za-z]+)*(?:\s+per\s+[A-Za-z]+)*(?:\([a-z]+\))?"
)
_IN_LABEL = re.compile(  # behind a number that counts, and is no value: `10 sec: 22528.2`
    rf"\s?(?:(?:[A-Za-z]+/s\w*|)[)\]]\s?[:=]|(?:s|secs?|seconds?|min|minutes?)(?:\s*\)?\s*[:=]|\s(?:avg|mean)\b)|-?\s?{words.STEP_WORDS}\b(?!\s?(?:/|per)\s?s|\s*[=:]\s*\d))",
    re.I,
)
_COUNTS = re.compile(  # a number in the name of another: of a window, or of items
    r"\d\s?(?:s|secs?|seconds?|min|minutes?)\s*(?:\)?\s*[:=]|(?:avg|mean)\b)|\bper 1,?000\b"
)
_OF_SEVERAL = re.compile(  # a time of more steps than one, as `3.5 s per 100 iterations`
    rf"\s?[a-zµ]+\s*(?:/|per|for|over|in|\()\s*(?:the\s+)?(?:last\s+)?\d+\s*{words.STEP_WORDS}\b",
    re.I,
)
_NO_RATE = re.compile(  # a pair, factor, %, W, devices, or a longer time: `1.2 B tokens/day`
    r"\s?/\s?\d|[hm]\s?\d|[dx]\b|\s?(?:W|°?C|ns|h)\b|\s?(?:gpus|devices|ranks|chips|workers|nodes|hosts|processes)\b|\s[x×*]\s?\d+(?![\d.]*\s?(?:gpu|device|rank|chip|worker))|\s?(?:%|[KMG]?Hz\b|(?:[A-Za-z]++\s?){1,2}(?:/|\bper\s)\s?\(?(?:min|minute|h|hr|hour|day|epoch)s?\b)",
    re.I,
)
_SINCE_BEGIN = re.compile(r"\s*\(?(?:since|so far|overall|on average|cumulative)\b", re.I)
_EACH = re.compile(  # behind the unit of what one of several does: `(each GPU)`, `x 8 GPUs`
    r"\s*\(?(?:(?:per|(?:on )?(?:each|this))\s|[x×*]\s?\d+\s?)"
    r"(?:gpu|device|rank|chip|worker)s?\b(?!:?\s*\d)",
    re.I,
)
_NAME_BEHIND = re.compile(  # a word, on a line that ends with one behind the unit of a rate
    r"\s+([A-Za-z][\w-]*)(?:\s*$|\s+[\d.].*/s\w*\s+[A-Za-z][\w-]*\s*$)"
)
_BYTES_OR_FLOPS = re.compile(r"\s?(?:[KMGT]i?B\b|[KMGT]?bps\b|[KMGTP]?FLOP[\w/]*)", re.IGNORECASE)
_BOUNDARY = re.compile(r",(?!\d)|[;|\t\n{}\[\]，；·•–—]|\s{2,}|\)\s|\s-\s")
_NEXT_NUMBER = re.compile(rf"\s+{words.NUMBER}(?!\s?(?:%|W\b|°?C\b))")
_IS_NAME = re.compile(rf"[\w/]*['\"]?\s*[:=](?!\s+(?!{words.NOT_FINITE})[A-Za-z])")
_OF_NUMBER_BEFORE = re.compile(  # its unit, before the number's own or the name of a rate
    r"^(?:[A-Za-z]+/s(?:ec)?(?:/\w+)?|m?s/[a-z]+|[KMGTP]?FLOP[Ss]?)[\s|]+(?=.*/)"
)
_PER_STEP = re.compile(r"/|\bper\b")  # of what counts several steps is a mean of these
_OF_RATE_BEFORE = re.compile(r"[.,]?\d+\s?[A-Za-z]+/s\w*(?:/\w+)?\s+[A-Za-z_ -]+[:=]?\s*$")
_IS_STEP = re.compile(r"\b(?:step|iter(?:ation)?|epoch|batch|update)\s+$", re.IGNORECASE)
_CLAIMED = re.compile(r"(?:\b(?:on|with|for|using|across|over|after)|(?<!\w)[x×*])\s*$", re.I)
_AFTER_NUMBER = re.compile(  # not within `8-GPU throughput`
    rf"(?:\d(?![\d.]*(?:-(?:gpu|device|chip)s?|\s(?:gpus|devices|chips))\b)|\b{words.NOT_FINITE}\b)"
    # and what it counts, where a name follows
    r"\S*\s+(?:[KMGT]i?B\s+|(?:m?s|secs?|seconds)\s+(?!per\b)(?=[a-z_/]+[:=\s]))?(?=\D)",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(  # but `time/100 steps`, one of a pair, a spread, or the seconds of `1m 2s`
    r"(?:[A-Za-z]/|\d\s+/\s*|\+/?-\s?|±\s?|\d ?(?:[hm]|min) ?)$"
)
_SPREAD = re.compile(rf"\s?\(?(?:\+ ?/? ?-|±)\s?{words.NUMBER}\s?%?\)?")  # before the unit
_ENDS_WITH_NUMBER = re.compile(  # and its unit
    r"(?:\d[:\])]?|\d\s?(?:[KMGT]i?B|W|°?C|%|[mu]?s|[A-Za-z]+/s\w*|m?s/[A-Za-z]+)"
    rf"|\b{words.NOT_FINITE})\s*$"
)
_ENDS_WITH_VALUE = re.compile(r"\d\s?(?:[KMGT]i?B|W|°?C|%)\s*$")
_NO_STEP = re.compile(
    r"(?<![a-z])(?:checkpoint|sav(?:ed|ing)|(?:down|up|re|pre)?load|(?:re)?compil|eval|valid)"
    r"|step = \d+ \([\d.]+ sec\)",  # of TensorFlow's Estimator: all steps since the line before
    re.IGNORECASE,
)
_VALIDATION = re.compile(
    r"\b(?:test(?:ing)?|eval\w*|val|valid\w*)(?=\W{1,3}"
    r"(?:(?:global_)?(?:step|it|iter\w*|epoch|batch|update)\W{1,3}\d|\[?\d+/\d))"
    r"|^\W*(?:test|eval\w*|valid\w*)\b|[(\[|]\s*(?:test|eval\w*|val|valid\w*)\s*[)\]|]"
    r"|\b(?:(?:mode|phase|split|stage)\W{1,4}|epoch\W{0,3}\d+\W{0,3})(?:test|eval\w*|val|valid\w*)\b",
    re.IGNORECASE,
)
_OF_EPOCH = re.compile(r"epochs?\W{0,3}$", re.IGNORECASE)
HEADER = re.compile(  # what loggers put before a line
    r"^(?:\s*(?:\[[^\]]*\d[^\]]*\]|\d{2,4}[-/]\d\d[-/]\S+|\d\d?:\d\d:\S+|[IWE]\d{4}\b.*?\]"
    r"|(?:INFO|DEBUG|WARNING|ERROR|root)\b:?|(?:__main__|[a-z_]+(?:\.\w+)+)(?::\w+)*:?|[-|>*])\s*)+",
)
_FACTS = (  # what lines of known programs do not say of themselves
    (re.compile(r"\btps: .*\btflops: .*\bmfu: "), {"per_gpu": True}),  # torchtitan
    (re.compile(r"/sec: \S+ \+/- \S+ \(jitter = "), {"is_mean": True}),  # tf_cnn_benchmarks
    (re.compile(r"iter_time=.*forward_time="), {"aside": "data"}),  # ESPnet: the wait for it
    (re.compile(r"^SPS: \d+$"), {"is_mean": True}),  # CleanRL: since the run began
    (re.compile(r"\bflops: .*\bwps: .*\bpow: "), {"per_gpu": True}),  # Meta Lingua
    (  # pix2pix and CycleGAN, which also count images as iterations
        re.compile(r"\(epoch: \d+, iters: \d+, time: \S+, data: "),
        {"name": "item_s", "item": "images", "is_bare_time": False},
    ),
)


@dataclass(eq=False)
class Column:
    """Numbers that stand between the same words on several lines: perhaps the speed of training."""

    role: words.Role
    label: str  # the text before the number
    unit: str  # the text after it
    pattern: str = ""  # that reads them, where they may be the speed
    counted: str = ""  # the item where its steps count these, as samples
    lines: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # of these lines in the log
    starts: list[int] = field(default_factory=list)  # where in them
    texts: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)  # of steps in their labels
    multiple: str = ""  # of the unit, as k of `kimg/s`
    is_confirmed: bool = False  # by the items and the time of the same lines

    @cached_property
    def values(self) -> list[float]:
        values = [words.usable_rate(text + self.multiple) for text in self.texts]
        return [value for value in values if value is not None]

    @cached_property
    def step(self) -> str | None:
        return step_pattern(self.lines)

    @property
    def counts_steps(self) -> bool:
        """Return whether its times are of as many steps as their labels say, each of the same."""
        return len(set(self.counts)) == 1

    @property
    def name(self) -> str:
        if self.pattern and self.places:
            return f"{self.label}…{self.unit}".strip()
        return self.label.strip()

    @property
    def usual(self) -> float:
        return statistics.median(self.values or [0.0])

    @property
    def class_(self) -> tuple[bool, ...]:
        """Order columns: items before steps, many before one, all of it before a part."""
        role = self.role
        return (
            role.name in words.OF_ITEMS,
            len(self.values) > 1,
            not role.is_bare_time,
            role.is_total,
            role.is_total or not role.extra,
            self.is_confirmed,
            not role.is_mean,
            role.per_gpu is not True,
            role.item not in ("", "items"),
        )

    @property
    def merit(self) -> tuple[object, ...]:
        has_step = self.step is not None
        return (*self.class_, has_step, len(self.values), -self.places[0], -self.starts[0])

    def is_like(self, other: "Column") -> bool:
        """Return whether nothing says which of both is the speed, and they differ."""
        usual = [words.seconds_per_step(each.role.name, each.usual) for each in (self, other)]
        apart = max(usual) > APART * min(usual)
        is_of_same = words.are_of_one_kind(self.role.item, other.role.item)
        return apart and self.class_ == other.class_ and is_of_same


def columns_of(lines: Sequence[str]) -> Iterator[Column]:
    """Yield columns, one for each kind of line in which they stand."""
    by_words: dict[tuple[str, str, str, words.Role, int, str], Column] = {}
    for place, line in enumerate(lines):
        other, lead = is_other(line), " ".join(words.words_of(_begin(line))[:2])
        times: dict[tuple[str, str], int] = {}
        for role, label, unit, match, count in islice(_rates_of(line), _MOST_RATES):
            like = (literal(label), literal(unit))
            times[like] = times.get(like, 0) + 1
            if other and not role.aside:
                role = replace(role, aside=other)
            multiple = words.multiple_of(unit)[0] or words.multiple_of(label)[0]
            key = (*like, multiple, role, times[like], lead)
            column = by_words.setdefault(key, Column(role, label, unit, multiple=multiple))
            column.lines.append(line)
            column.places.append(place)
            column.starts.append(match.start())
            column.texts.append(match[0])
            column.counts += filter(None, [count])
    yield from by_words.values()


def is_other(line: str) -> str:
    """Return the word by which a line is of validation, or of what comes before training."""
    validation = _VALIDATION.search(line)
    if validation:
        return validation[0].strip(" ([)]:")
    return words.phase_of(_begin(line)) or (other_of(line[:_MOST_BEGIN]) if "%|" in line else "")


def _begin(line: str) -> str:
    """Return what a line has before its first digit, without the header of a logger."""
    header = HEADER.match(line)
    begin = line[header.end() if header else 0 :]
    return re.split(r"\d", begin[:_MOST_BEGIN], maxsplit=1)[0]


def _rates_of(line: str) -> Iterator[tuple[words.Role, str, str, re.Match[str], str]]:
    """Yield each number of a line that is a rate: role, texts around it, and the steps it is of."""
    for match in words.VALUE.finditer(line):
        spread = _SPREAD.match(line, match.end())
        end = spread.end() if spread else match.end()
        if any(form.match(line, end) for form in (_IN_LABEL, _OF_SEVERAL, _NO_RATE)):
            continue
        if _NO_VALUE.search(line, 0, match.start()):
            continue
        unit, beside = _unit_after(line, end), words.multiple_beside(line, *match.span())
        labels = list(labels_before(line, match.start()))
        own = unit.strip()
        labels = [_OF_NUMBER_BEFORE.sub("", label + own).removesuffix(own) for label in labels]
        # of words that name something else, and none, those of the number before it are not its own
        labels.sort(key=lambda label: bool((role := role_of(label, unit)) and role.aside))
        for label in labels:
            counted = words.COUNTED.search(label)
            if counted and _PER_STEP.search(label[counted.end() :] + unit):
                counted = None
            role = role_of(label.strip(" ."), unit.strip())
            multiple = words.multiple_of(unit)[0] or words.multiple_of(label)[0]
            if role is None or multiple != beside:
                continue
            of_before = _OF_RATE_BEFORE.search(line, 0, match.start())
            if of_before and (role.extra or "." in of_before[0]):  # a name of this one, or of that
                if "/" not in unit or label != labels[-1] or role.aside:
                    continue
                role = replace(role, per_gpu=None, is_total=False, extra=label.strip())
            if role.is_bare_time and _NO_STEP.search(line):
                continue
            if role.name == "throughput" and not role.item and match[0].endswith("T"):
                continue  # of floating-point operations
            before = line[: match.start()]
            if _CLAIMED.search(label) or (role.name in words.OF_ITEMS and _IS_STEP.search(before)):
                break  # by another word, as in `images/s on 4 GPUs`
            is_of_bar = bool(BEFORE_RATE.search(before))
            if role.name not in words.OF_ITEMS:
                bar = bar_of(line)
                if is_of_bar or (bar and bar.reading.has_rate):
                    break  # of a bar, which has a reader of its own
            for pattern, changes in _FACTS:
                if pattern.search(line):
                    role = replace(role, **changes)
            if role.name in words.OF_ITEMS and _EACH.match(line, end + len(unit)):
                role = replace(role, per_gpu=True)
            named = _NAME_BEHIND.match(line, end + len(unit))
            by_name = role_of(named[1], unit.strip()) if named else None
            if by_name and not role.aside:
                role = replace(role, aside=by_name.aside, extra=role.extra or by_name.extra)
            is_of_run = _SINCE_BEGIN.match(line, end + len(unit))
            is_beside = before.count("(") > before.count(")") and not words.words_of(label)
            if is_of_run or is_beside or is_of_bar or unit.strip() in ("it/s", "s/it"):
                role = replace(role, is_mean=True)
            is_time = role.name in ("step_s", "step_ms")
            behind = line[match.end() : end] + unit if unit else ""
            yield role, label, behind, match, counted[1] if counted and is_time else ""
            break


def role_of(label: str, unit: str) -> words.Role | None:
    """Return what a number is, whose unit may be of thousands: the number then has them."""
    return words.role_of(words.multiple_of(label)[1], words.multiple_of(unit)[1])


def labels_before(line: str, place: int) -> Iterator[str]:
    """Yield the text before a number: after the number before it, and with that one."""
    begin = line[max(0, place - words.MOST_LABEL) : place]
    bare = begin.rstrip(" \t:='\"|>")
    bounds = [match.end() for match in _BOUNDARY.finditer(bare)]
    label = begin[bounds[-1] :] if bounds else begin
    numbers = [match for match in _AFTER_NUMBER.finditer(label) if match.end() < len(label)]
    counted = words.COUNTED.search(label)
    if (numbers and "|" in begin[len(bare) :]) or _ENDS_WITH_VALUE.search(label):
        label, numbers = "", []  # a number and what it counts have their own cell, or `gpu 97%`
    if not numbers or counted:
        others = [match.end() for match in numbers if counted and match.end() <= counted.start()]
        yield label[max(others, default=0) :].lstrip()
    else:
        yield label[numbers[-1].end() :].lstrip()
        if _COUNTS.search(label):
            yield label.lstrip()
    if _ENDS_WITH_NUMBER.search(label):
        yield ""


def _unit_after(line: str, place: int, most: int = _MOST_NUMBERS) -> str:
    """Return the unit after a number: it may be the name of the next, as up to `most` tell."""
    after = line[place : place + 40]
    other = _BYTES_OR_FLOPS.match(after)
    match = other or _UNIT.match(after)
    unit = match[0] if match else ""
    is_unit = "/" in unit or " per " in unit or unit.strip() in words.SECONDS
    if not other and not is_unit and not role_of("", unit.strip()):
        return ""
    end = place + len(unit)
    if _IS_NAME.match(line, end):
        return ""
    following = _NEXT_NUMBER.match(line, end) if most else None
    if following and not _unit_after(line, following.end(), most - 1):
        return ""
    return unit
