"""Takes secrets out of text before it is stored or printed: passwords, tokens, keys. Standard library only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

MASK = "***"

_PASS = r"""(?<=[_-])pass(?![\w-])|\bpass(?=["']?=|["']\s*:)"""  # tells of a password only as a name: tests pass, too
_NAME = (  # as parts of names: in prose, "key:" and "private:" mean nothing
    r"(?<!software_)(?<=[_-])key(?![\w-])|(?<!gpu_)(?<=[_-])private(?![\w-])|(?<=[?&_-])sig(?:nature)?(?![\w-])"
    r"|(?<=[?&])(?:key|private)(?==)|(?-i:\b(?:KEY|PRIVATE|SIG)(?==))|cookies?(?=[\"']?=)"
)
_SECRET_WORD = (
    rf"(?:{_PASS}|{_NAME}|passwords?|passwd|passphrase|pwd|secrets?|token|credentials?"
    r"|api[_-]?key|access[_-]?key|private[_-]?key)"
)
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|)\S*"""
_SHAPES = (
    r"gh[a-z]_\w{16,}",  # GitHub
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{16,}",  # GitLab
    r"sk-[\w-]{16,}",  # OpenAI, Anthropic
    r"(?:AKIA|ASIA)[A-Z0-9]{16,}",  # AWS
    r"hf_\w{16,}",  # Hugging Face
    r"xox[a-z]-[\w-]{10,}",  # Slack
    r"AIza[\w-]{30,}",  # Google
    r"eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?",  # JSON web tokens
)
_RULES = (
    (re.compile(r"(:/{1,2}[^\s/@:]*):\S*@"), rf"\1:{MASK}@"),  # of one slash, too: so paths show what was a URL
    (re.compile(r"(?i)(\bhttps?:/{1,2})[^\s/@?#]+@"), rf"\1{MASK}@"),  # a token stands where others have a user
    (re.compile(r"(?i)(\b(?:hooks\.slack\.com/\w+|discord(?:app)?\.com/api/webhooks)/)\S+"), rf"\1{MASK}"),
    (
        re.compile(rf"(?i)(authorization[\"']?\s*[:=]\s*)(?:[\"']?(?:bearer|basic|digest|token|negotiate)\s+)?{_VALUE}"),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(?i)\b(bearer)\s+{_VALUE}"), rf"\1 {MASK}"),
    (re.compile(r"(?i)(\bcookie[\"']?[ \t]*:[ \t]*)[^\r\n]*"), rf"\1{MASK}"),  # one after another, to the end of the line
    (re.compile(rf"(?i)((?:{_SECRET_WORD}(?:[_-]\w+)?|\bauth)[\"']?[ \t]*[=:][ \t]*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(?<!\S)(--?[\w-]{{0,40}}?{_SECRET_WORD}(?:[_-]\w+)?[ \t]+){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_SHAPES)})"), MASK),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MASK),
)
_RULES_OF_ARGUMENTS = (
    (re.compile(r"\A(\+{0,2}sweep\.notify=).*", re.DOTALL), rf"\1{MASK}"),
    (re.compile(r"(:/{1,2}[^\s/@:]*):.*@", re.DOTALL), rf"\1:{MASK}@"),
    (re.compile(rf"(?i)((?:{_SECRET_WORD}(?:[_-]\w+)?|\bauth)=).*", re.DOTALL), rf"\1{MASK}"),
)
_FLAG = re.compile(rf"(?i)--?[\w-]*{_SECRET_WORD}(?:[_-]\w+)?")


_OF_SECRETS = (
    "TOKEN",
    "SECRET",
    "PASS",
    "PWD",
    "CREDENTIAL",
    "KEY",
    "AUTH",
    "PRIVATE",
    "COOKIE",
    "SIG",
)


def names_a_secret(variable: str) -> bool:
    """Whether the name of a variable that is not known tells of a secret."""
    return any(word in variable.upper() for word in _OF_SECRETS)


def without_secrets(text: str) -> str:
    """The text with *** for what looks like a secret; all other text as it is, and masked text again, too.

    Known by what stands before it (`password=`, `token:`, `--api-key `, `Authorization:`, `://user:`), or by its own shape. In
    running text a secret ends with a space.
    """
    for pattern, masked_as in _RULES:
        text = pattern.sub(masked_as, text)
    return text


def command_line(arguments: Sequence[str]) -> str:
    """Of a command that is stored: what follows a `--password` goes, too."""
    told = []
    follows_flag = False
    for argument in arguments:
        told.append(MASK if follows_flag else masked(argument))
        follows_flag = _FLAG.fullmatch(argument) is not None
    return shlex.join(told)


@lru_cache(maxsize=4096)  # the cells of a grid say the same again and again
def masked(text: str) -> str:
    """One argument, or the address of a database, for people. It is looked at alone, so that a secret in it may have spaces.

    What `sweep.notify` runs is told to nobody.
    """
    for pattern, masked_as in _RULES_OF_ARGUMENTS:
        text = pattern.sub(masked_as, text)
    return without_secrets(text)
