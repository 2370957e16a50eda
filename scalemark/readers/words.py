"""Understands what programs write: numbers as `1.2k` and `300ms`, and words for their speed."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeGuard

from scalemark.records.measurement import FASTEST, SLOWEST
from scalemark.text.untrusted import quoted

_DIGITS = r"(?:\d[\d_]*+(?:[.,]\d[\d_]*+)*+|\.\d++)"  # with all marks that may be of one number
NOT_FINITE = "(?i:nan|inf)"
"""A number that is none or has no end, as programs write it: nan, NaN, Inf."""

NUMBER = rf"(?:[-+]?{_DIGITS}(?:[eE][-+]?\d+)?+(?:[kKMGBT](?![A-Za-z0-9]))?|[-+]?{NOT_FINITE}\b)"
"""A number within a line; a unit may follow at once, as in `561.94ms`."""

VALUE = re.compile(rf"(?<![\w.^])(?<!\d[,:]){NUMBER}(?!:\d|-\d)")
"""A number that stands alone, and is no part of a date or of a time of the day."""

_ANY = re.compile(rf"(?:(?<![\w.,)\]])[-+])?{_DIGITS}(?:[eE][-+]?\d+)?+")
_MULTIPLE = re.compile(r"[kKMGBT](?![A-Za-z0-9])")
_DECIMAL_COMMA = re.compile(  # and no list, of which each number may have one or two digits
    r"(?<![\w.,:])(?:\d+,\d\d|\d\d+,\d|0,\d{3,}|\d+,\d{4,})(?![\d.,]*\d)"
)
_DECIMAL_POINT = re.compile(r"(?<![\d.,])\d+\.(?!\d{3}(?!\d))\d+(?![\d.,]*\d)")

_SPACES = " \u00a0\u2009\u202f'\u2019"  # that group digits, as narrow ones and apostrophes do
_FORM = re.compile(rf"([-+]?)(\d[\d.,_{_SPACES}]*|\.\d+)([eE][-+]?\d+)?\s?([kKMGBT]?)", re.A)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+")
_MAYBE_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "µs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
"""Units of time and what they are in seconds."""

_DURATION = re.compile(r"(.*?[\d.])\s*([a-zµ]+)")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")

_GROUPS = re.compile(r"(?<=\d)['\u2019\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_SPACED = re.compile(  # behind a number, a bound, or what a rate is called: nothing else claims it
    r"((?:\d|[|,;(]|/s(?:ec)?\b\s?[:=]?|throughput\s?[:=]?|speed\s?[:=]?"
    r"|[:=](?=\s\d[\d ]+,\d+\s[A-Za-z]+/s\b))\s+)(\d{1,3}(?: \d{3})+)"
    r"(?=(?:[.,]\d+)?(?:\s?[A-Za-z]+\s?(?:/|per)\s?s|\s*(?:[|,;)]|$)))",
    re.IGNORECASE,
)
_MAYBE_SPACED = re.compile(r"\d \d{3}(?!\d)")


def without_grouping(line: str) -> str:
    """Return a line without what groups digits, as in 12 345 img/s, and not in `step 12 345`."""
    line = _GROUPS.sub("", line)
    if not _MAYBE_SPACED.search(line):
        return line
    return _SPACED.sub(lambda match: match[1] + match[2].replace(" ", ""), line)


def number(text: str, decimal: str = "") -> float | None:
    """Return the number that a text is, which may be nan or infinite; None where it is none.

    The mark that is not `decimal` groups digits. Where that is not said, the last of two marks is;
    a comma before each three digits groups them, and a single other one is a decimal comma.
    """
    text = text.strip()
    if decimal != "," and text.isascii():
        text = text.rstrip(",.;")
        with suppress(ValueError):
            value = float(text)
            return math.nan if math.isnan(value) else value  # one object: readings compare equal
    form = _FORM.fullmatch(text)
    if not form:
        return None
    sign, digits, exponent, multiple = form.groups()
    digits = digits.replace("_", "")
    if not decimal and "." in digits and "," in digits:
        decimal = max(".,", key=digits.rfind)
    elif not decimal:
        is_comma = "," in digits or digits.count(".") > 1
        decimal = "," if is_comma and not _GROUPED.fullmatch(digits) else "."
    group = ".," if decimal == "," else ",."
    whole_part, mark, fraction = digits.partition(decimal)
    grouped = rf"[1-9]\d{{0,2}}([{group[0]}{_SPACES}])\d{{3}}(?:\1\d{{3}})*"
    if not re.fullmatch(rf"\d*|{grouped}", whole_part) or not re.fullmatch(r"\d*", fraction):
        return None
    plain = re.sub(r"\D", "", whole_part)
    return float(f"{sign}{plain}{mark and '.'}{fraction}{exponent or ''}") * _MULTIPLES[multiple]


def whole_number(match: re.Match[str], group: int | str, *, is_rate: bool) -> str:
    """Return what a group caught, with what the line has of the same number beside it.

    `([0-9.]+) img/s` catches 9 of 1e+09, and 3 of -3; a rate also has the thousand of 1.2k. Raises
    ValueError for a comma beside it that may be of several kinds.
    """
    line, caught, (start, end) = match.string, match[group] or "", match.span(group)
    beside = next((each for each in _ANY.finditer(line) if each.end() > start), None)
    if number(caught) is None or beside is None or beside.start() > start:
        return caught
    # what the pattern itself matches beside the group does not belong to the number
    before = line[beside.start() : start] if start == match.start() else ""
    after = line[end : beside.end()] if end == match.end() else ""
    both = f"{before}{caught}{after}"
    if "," in before + after and (number(both) is not None or _MAYBE_GROUPED.search(both)):
        shown = quoted(f"{line[:start][-12:]}{caught}{line[end:][:12]}".strip(), 60)
        raise ValueError(
            f"the pattern catches {caught} of {shown!r}; catch the whole number, as ([0-9.,]+), or "
            "write what stands before and after it"
        )
    rest = after.partition(",")[0]
    caught, end = before.rpartition(",")[2] + caught + rest, end + len(rest)
    if has_unsure_comma(caught, line):
        raise ValueError(
            f"the comma of {caught} may be that of decimals, as others on its line, or of "
            "thousands; let the program print decimal points, as LC_ALL=C does"
        )
    if not is_rate or caught[-1:].isalpha():
        return caught
    multiple = _MULTIPLE.match(line, end)
    return caught + (multiple[0] if multiple else multiple_beside(line, start, end))


def multiple_beside(line: str, start: int, end: int) -> str:
    """Return the multiple of the unit behind a number, or of the words before it: k, M or none."""
    behind = _MULTIPLE_BEHIND.match(line, end)
    if behind:
        return multiple_of(line[behind.start() :].lstrip())[0]
    before = _MULTIPLE_BEFORE.search(line, max(0, start - MOST_LABEL), start)
    return multiple_of(before[0], is_unit=True)[0] if before else ""


def multiple_of(unit: str, *, is_unit: bool = False) -> tuple[str, str]:
    """Return the multiple of a text, and the text without: k and images/s of `10^3 images/s`, and
    of `1000 images/s` where all of it is a unit.
    """
    match = (_MULTIPLE_OF_UNIT if is_unit else _MULTIPLE_OF_TEXT).search(unit)
    if not match:
        return "", unit
    word = match["first"] or match["last"]
    is_million = word[0] in "mM" or word[-1] in "6⁶" or word.count("0") == 6
    return "M" if is_million else "k", unit[: match.start()] + unit[match.end() :]


def has_unsure_comma(text: str, line: str) -> bool:
    """Return whether the comma of a number may group digits, or be as others of its line."""
    is_either = _GROUPED.fullmatch(text) and text.count(",") == 1
    return bool(is_either and _DECIMAL_COMMA.search(line) and not _DECIMAL_POINT.search(line))


def usable_rate(text: str) -> float | None:
    """Return a number that a rate may be; None for all else, as nan, infinity or zero."""
    rate = number(text)
    return rate if is_rate(rate) else None


def is_rate(value: float | None) -> TypeGuard[float]:
    return value is not None and SLOWEST <= value <= FASTEST


def whole(text: str) -> int | None:
    """Return a number without a fraction, as a step is."""
    value = number(text)
    return int(value) if value is not None and value.is_integer() else None


def seconds(text: str) -> float | None:
    """Return a duration in seconds, from `0.5`, `300ms`, `2 min` or `1:02:03`."""
    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, rest = clock.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
    with_unit = _DURATION.fullmatch(text)
    if not with_unit:
        return number(text)
    amount, unit = number(with_unit[1]), SECONDS.get(with_unit[2])
    return None if amount is None or unit is None else amount * unit


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ITEMS = (  # the plural that tables use, and other words for it
    "images image img imgs im pictures, tokens token tok toks tk tkn, samples sample smpl, "
    "examples example ex exs, sequences sequence seq seqs, sentences sentence sent sents, "
    "words word, frames frame, records record, graphs graph, atoms atom, videos video, "
    "clips clip, utterances utterance utt utts, pairs pair, instances instance ins, rows row, "
    "events event, rays ray, points point, elements element, transitions transition, "
    "timesteps timestep, items item"
)
_ITEM_OF = {word: group.split()[0] for group in _ITEMS.split(",") for word in group.split()}
# words for one example of a batch; whatever a user's examples are may be called so
EXAMPLES = _set("examples instances records rows samples items")
# tok/s/gpu, images per second
_PER_S = rf"(?i:{'|'.join(_ITEM_OF)})(?:(?:\s?/\s?|[\s_]per[\s_]|_)(?i:[a-z]+))+"
_WORD_OF_MULTIPLE = r"(?:[kKM]|(?:thousand|million)s?(?: of)?)"
_POWER = rf"(?:{_WORD_OF_MULTIPLE}|10(?:\^|\*\*)[36]|10[³⁶]|1e[36])"
_THOUSAND = "1,?000(?:,?000)?"  # alone it is a count, as of `step 1000 samples/s 12.5`
_OF_MULTIPLE = rf"(?:{_POWER}|{_THOUSAND})"
_BARE_MULTIPLE = rf"(?:{_POWER}|(?<=[x×*(\[]){_THOUSAND}|(?<=[x×*]\s){_THOUSAND})"
_IN_BRACKETS = rf"[(\[](?:in\s|[x×*]\s?)?(?P<last>{_OF_MULTIPLE})[)\]]"
_MULTIPLE_OF_UNIT, _MULTIPLE_OF_TEXT = (
    re.compile(
        rf"(?<![\w^.,])(?:[x×]\s?)?(?P<first>{multiple})[\s_-]?(?={_PER_S})"
        rf"|(?<=[A-Za-z])\s?{_IN_BRACKETS}"
    )
    for multiple in (_OF_MULTIPLE, _BARE_MULTIPLE)
)
_MULTIPLE_BEHIND = re.compile(
    rf"\s?(?:{_WORD_OF_MULTIPLE}|[(\[](?:[x×*]\s?)?{_OF_MULTIPLE})[\s_-]?(?={_PER_S})"
)
_MULTIPLE_BEFORE = re.compile(  # of no other number, unless it has a name
    rf"(?<![\w^.,])(?:(?<![\d.]\s)|(?=[^\d]+[:=]\s*$)){_BARE_MULTIPLE}[\s_-]?{_PER_S}[)\]]?\W{{0,3}}$"
    rf"|{_PER_S}\s?{_IN_BRACKETS}\W{{0,3}}$"
)
MOST_LABEL = 60  # characters before a number
_OF_ONE_KIND = (
    _set("tokens words"),  # fairseq counts tokens and says words
    EXAMPLES | {"images", "sequences", "sentences"},
)
_STEPS = _set(
    "step steps it its iter iters iteration iterations batch batches minibatch update updates"
)
STEP_WORDS = r"(?:steps?|iters?|iterations?|its|batch(?:es)?|updates?)"
_BEFORE_COUNT = (
    r"(?:(?<=[a-zA-Z]/)|(?<=\()|(?<=per[ _])|(?<=over )|(?<=last )|(?<=every )|(?<=for ))"
)
COUNTED = re.compile(
    rf"(?<![\d.])(?:{_BEFORE_COUNT}|(?!\d+\W?(?:step|iter|iteration|batch|update)\b)(?<!/))"
    rf"(\d+)\s?[-_]?\s?(?:train(?:ing)?\s)?{STEP_WORDS}"
    r"\b(?!-|\s*(?:/|per)\s*s)(?!\s*[=:\[]?\s*\d)",
    re.IGNORECASE,
)
"""A number of steps that a time is of, as in `time/100 steps: 35.2s` or `100 steps take 0.7 s`."""

_SHORT = {"tps": "tokens", "tgs": "tokens", "wps": "words", "sps": "samples", "fps": "frames"}
_FILMED = _set("video clip render camera display movie")  # their fps is a property of theirs
_BARE = _set("throughput ips rate speed")
_SPEEDS = _set("rate speed")
# others than these have a rate of something else: sample_rate, clip_rate, success_rate, max_speed
_BEFORE_SPEEDS = _set("train training avg average token tokens image images img imgs global local")
_GPU = _set(
    "gpu gpus device devices chip chips core card accelerator worker rank npu hpu xpu tpu local"
    " replica process"
)
_SEVERAL_GPUS = _set("node host machine thread")  # a rate of one is neither of all nor of a GPU
_TIME = _set("time duration elapsed cost latency timing seconds secs sec ms s avg dt t take takes")
_NAMED_TIME = _set("time duration latency timing dt took")  # time_this_iter_s is in seconds
_BARE_TIMES = (
    *({"time"}, {"seconds"}, {"dt"}, {"time", "ms"}, {"time", "s"}, {"time", "sec"}),
    *({"took"}, {"duration"}, {"duration", "ms"}, {"duration", "s"}, {"time", "seconds"}),
)
_ELAPSED = _set(
    "time elapsed wall total train running sec secs s seconds runtime duration uptime so far"
)
_SINCE = _set("time elapsed wall runtime uptime duration")
_MEAN = _set("avg average mean running cumulative overall smoothed")
_ALL_GPUS = _set(
    "total on all global overall agg aggregate aggregated cluster whole world e2e end2end"
    " end-to-end end_to_end"
)
_NEUTRAL = _set(
    "per is of at the current curr cur inst instant instantaneous now perf model train trained"
    " training step second sec s ms throughput performance metrics metric speed rate info root"
    " epoch and"
)
EVALUATION = _set(
    "eval evaluation evaluating evaluate val valid validation validating test testing"
)
_PHASES = EVALUATION | _set(  # of a program, beside training
    "infer inference predict prediction predicting generation generate generating generated gen"
    " decode decoding prefill rollout rollouts collect collection collecting load loading save"
    " saving checkpoint compile compilation compiling warmup warming warm sanity tokenize"
    " tokenizing preprocess preprocessing download downloading dataloader sampler profile profiling"
    " building indexing scanning caching shuffling filtering"
)
_OTHER = _PHASES | _set(  # numbers that are of something else than training steps
    "data dataset reader loader eta remaining left prompt forward backward fwd bwd flop flops"
    " tflop tflops gflops mflops pflops gb mb kb gib mib bytes learning decay dropout error"
    " acceptance network disk io memory bandwidth read write loss lr response"
    " target peak max maximum min minimum best theoretical ideal expected goal limit baseline"
    " roofline compute map mapping policy simulation simulator reward critic ref reference"
    " comm communication allreduce init actor queue prefetch h2d d2h"
)
_PARTS = _set("step policy inference")  # behind a rate, as in rl_games' `fps step`
_PART_OF_STEP = _set(  # before a time, as in `optimizer_step_time`
    "optimizer optim gc wait waiting idle cpu est estimated sync copy augment augmentation"
)
_GROWING = _set(
    "total num number consumed seen processed trained so far cumulative global env text"
)
_TIMES: Mapping[tuple[str, float | None], str] = {
    **{("step", 1.0): "step_s", ("step", 1e-3): "step_ms"},
    **{("item", 1.0): "item_s", ("item", 1e-3): "item_ms", ("kitem", 1.0): "kitem_s"},
}
_NAMES = ("throughput", "kitem_s", "item_s", "item_ms", "steps_per_s", "step_ms", "step_s")
OF_ITEMS = frozenset(("throughput", "kitem_s", "item_s", "item_ms"))
"""Names of roles that say how many items there are in a second."""

_WORD = re.compile(r"e2e|end([-_])to\1end|[hd]2[hd]|[a-zµ]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PER = re.compile(r"\bm?s(?:ec)?/([a-z]+)|/\s?s(?:ec)?/([a-z]+\d*)")
_OF_ONE = re.compile(  # whatever else is said: `total tokens/s per gpu`, `mean over ranks`
    r"(?:/\s?|per[ _](?:dp[ _])?|\b(?:mean|avg|average)\W+(?:over|of|across)\W+(?:(?:all|\d+)\W+)?)"
    rf"(?:{'|'.join(sorted(_GPU, reverse=True))}|(?:rank|worker|replica)s|processes)(?![a-z])"
)
_OF_COUNT = re.compile(r"(?<![\d.])(\d+)(?:-(?:gpu|device|chip)s?|\s(?:gpus|devices|chips))\b")
_PER_SECOND = re.compile(r"\s*/\s*(?:s|sec|second)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a number beside some words is."""

    name: str  # of a rate, as `scalemark.readers.fields.RATES` has it
    item: str = ""
    per_gpu: bool | None = None
    is_mean: bool = False
    is_total: bool = False  # of all parts, or of the whole run
    is_bare_time: bool = False  # `time` and no more: of a step only where the line has one
    aside: str = ""  # the word by which it is the rate of something else than training
    extra: str = ""  # words whose meaning is not known


TOKENS_SO_FAR = Role(name="throughput", item="tokens", per_gpu=False, is_mean=True)
"""The tokens of all GPUs since training began, over that time: `throughput` of LLaMA-Factory, and
what the Trainer of Hugging Face logs beside `num_input_tokens_seen`."""


def item_of(word: str) -> str:
    """Return the plural that tables use for an item: images for `img`; others as they are."""
    return _ITEM_OF.get(word.strip().lower(), word.strip()[:20])


def are_of_one_kind(item: str, other: str) -> bool:
    """Return whether a step has as many of one as of the other, as of images and samples."""
    return item == other or any(item in kind and other in kind for kind in _OF_ONE_KIND)


def seconds_per_step(name: str, amount: float) -> float:
    """Return the seconds of a step from a rate of steps, as its name says: steps_per_s, step_ms."""
    if name == "steps_per_s":
        return 1 / amount
    return amount / 1e3 if name == "step_ms" else amount


def chosen(roles: Mapping[str, Role | None], item: str) -> tuple[str, Role] | None:
    """Return the rate to read of several: items, the wanted one, of all GPUs, no mean."""

    def merit(named: tuple[str, Role]) -> tuple[bool | int, ...]:
        _, role = named
        return (
            role.name in OF_ITEMS,
            bool(item) and role.item == item_of(item),
            role.item != "items",
            role.per_gpu is not True,
            role.is_total,
            not role.is_mean,
            -_NAMES.index(role.name),
        )

    usable = [
        (name, role)
        for name, role in roles.items()
        if role is not None and not role.is_bare_time and not role.aside
    ]
    return max(usable, key=merit, default=None)


def is_elapsed(label: str) -> bool:
    """Return whether words are those of a time since something began."""
    words = [word for word in words_of(label) if not word.isdigit()]
    return bool(_SINCE.intersection(words)) and _ELAPSED.issuperset(words)


def is_batch(label: str) -> bool:
    """Return whether words are those of the items that all GPUs have in a step."""
    words = set(words_of(label))
    return {"batch", "size"} <= words and bool({"global", "total", "effective"} & words)


def is_step(label: str) -> bool:
    """Return whether words are those of the number of a step."""
    words = words_of(label)
    return bool(words) and words[-1] in _STEPS and role_of(label) is None


def counted_item(label: str) -> str:
    """Return the item of a count as `consumed samples` or `total_timesteps`; empty: it is none."""
    words = words_of(label)
    items = [_ITEM_OF[word] for word in words if word in _ITEM_OF]
    is_known = {*_ITEM_OF, *_GROWING, *_NEUTRAL}.issuperset(words)
    return items[0] if items and is_known and role_of(label) is None else ""


def phase_of(text: str) -> str:
    """Return the first word of a text that names a phase other than training; empty: none."""
    return next((word for word in words_of(text) if word in _PHASES), "")


@lru_cache(maxsize=4096)  # lines repeat their words
def role_of(label: str, unit: str = "") -> Role | None:
    """Return what a number is from the words before and after it; None where it is no rate."""
    words, units = words_of(label), words_of(unit)
    if multiple_of(label)[0] or multiple_of(unit)[0]:
        return None  # of thousands, which who reads the number has to take
    for per in _PER.findall(f"{label} {unit}".lower()):
        word = "".join(per)
        if not {word, word.removeprefix("k")} & (_STEPS | _GPU | _SEVERAL_GPUS | _ITEM_OF.keys()):
            return None  # of what is not known, as s/epoch, samples/s/H100
    role = _rate_of(words, units, unit)
    if role is None:
        return None
    text = _CAMEL.sub(" ", f"{label} {unit}").lower()
    count = _OF_COUNT.search(text)
    if role.name in OF_ITEMS and _OF_ONE.search(text):
        role = replace(role, per_gpu=True, is_total=False)
    elif role.name in OF_ITEMS and count:
        role = replace(role, per_gpu=False)
        if count[1] == "1":
            return replace(role, aside=count[0])
    others = _OTHER | (_SEVERAL_GPUS if role.name in OF_ITEMS else _PART_OF_STEP)
    aside = [word for word in (*words, *units) if word in others]
    known = {*_ITEM_OF, *_STEPS, *_SHORT, *_BARE, *_GPU, *_TIME, *_MEAN, *_ALL_GPUS, *_NEUTRAL}
    extra = [word for word in words if word not in known and not word.isdigit()]
    places = [place for place, word in enumerate(words) if word in _SHORT or word in _BARE]
    if places and role.name == "throughput":
        extra += [word for word in words[places[0] + 1 :] if word in _PARTS and "per" not in words]
        extra += [word for word in words[: places[0]] if word == "sample"]  # the phase, or the item
    is_mean = role.is_mean or bool(_MEAN.intersection((*words, *units)))
    return replace(role, aside=aside[0] if aside else "", extra=" ".join(extra), is_mean=is_mean)


def _rate_of(words: Sequence[str], units: Sequence[str], unit: str) -> Role | None:
    """Return what a number is by its unit, or else by its label."""
    of_unit, of_label = _time_of(units), _time_of(words)
    if of_unit:
        return of_unit
    item = _numerator(units)
    if item is None and len(units) == 1:
        item = _SHORT.get(units[0])
    if item is None and _PER_SECOND.match(unit):
        item = ""
    if item is None:
        if of_label and (of_label.name != "step_s" or SECONDS.get(words[0]) == 1.0):
            return of_label
        item = None if SECONDS.keys() & units else _numerator(words)
    if item is None and not units:
        item = _short(words)
    if item is None:
        return _step_time(words, units)
    return _per_second(item, words, units)


def _short(words: Sequence[str]) -> str | None:
    """Return the item of `tps`, or of `throughput` where nothing else is said."""
    for word in words:
        if word in _SHORT and not _FILMED.intersection(words):
            return _SHORT[word]
        if word == "ups":
            return "steps"
    bare = [word for word in words if word not in _GPU | {"per", "s", "sec", "second"}]
    if bare[-1:] in (["throughput"], ["ips"]):
        return ""
    if not 0 < len(words) <= 2 or words[-1] not in _BARE:
        return None
    if words[-1] in _SPEEDS and not _BEFORE_SPEEDS.issuperset(words[:-1]):
        return None
    return _ITEM_OF.get(words[0], "")


def _numerator(words: Sequence[str]) -> str | None:
    """Return the item, or "steps", of words as `tokens per gpu per second`; None: no rate."""
    for place, word in enumerate(words):
        name = "steps" if word in _STEPS else _ITEM_OF.get(word)
        if name is None or (place and words[place - 1] == "per"):
            continue
        after = [other for other in words[place + 1 :] if other not in {"per", "train", *_GPU}]
        is_seconds = bool(after) and SECONDS.get(after[0]) == 1.0
        is_time = name == "steps" and "per" not in words and _NAMED_TIME.intersection(words[:place])
        if is_seconds and not is_time:
            return name
    return None


def _time_of(words: Sequence[str]) -> Role | None:
    """Return the time of a step or an item, of words as `ms per step`, `s it` or `sec kimg`."""
    for place, word in enumerate(words[:-1]):
        after = [other for other in words[place + 1 :] if other != "per"]
        what = next((other for other in after if not other.isdigit()), "")
        kind = "kitem" if "1000" in after else "item"
        if what not in _ITEM_OF and what.removeprefix("k") in _ITEM_OF:
            what, kind = what.removeprefix("k"), "kitem"
        elif what in _STEPS:
            kind = "step"
        name = _TIMES.get((kind, SECONDS.get(word)))
        if name and (what in _ITEM_OF or what in _STEPS):
            return Role(name=name, item=_ITEM_OF.get(what, ""))
    return None


def _step_time(words: Sequence[str], units: Sequence[str]) -> Role | None:
    is_bare = set(words) in _BARE_TIMES or (not words and bool(units))
    has_both = _TIME.intersection([*words, *units]) and _STEPS.intersection([*words, *units[1:]])
    if not is_bare and not has_both:
        return None
    unit = units[0] if units else next((word for word in words if word in (*SECONDS, "ns")), "s")
    name = _TIMES.get(("step", SECONDS.get(unit)))
    return Role(name=name, is_bare_time=is_bare) if name else None


def _per_second(item: str, words: Sequence[str], units: Sequence[str]) -> Role:
    every = {*words, *units}
    is_total = "total" in every or bool(_ALL_GPUS & every - {"on", "global"})
    # of PyTorch/XLA: since the run began
    is_mean = "global" in words and bool(_SPEEDS.intersection(words))
    if "global" in words and not is_mean and "step" not in words:
        is_total = True
    per_gpu = False if is_total else None
    if "tgs" in every or (_GPU & every and not _ALL_GPUS & every):
        per_gpu = True
    return Role(
        name="steps_per_s" if item == "steps" else "throughput",
        item="" if item == "steps" else item,
        per_gpu=per_gpu,
        is_mean=is_mean,
        is_total=is_total and not per_gpu,
    )


def words_of(text: str) -> list[str]:
    return [match[0] for match in _WORD.finditer(_CAMEL.sub(" ", text).lower())]
