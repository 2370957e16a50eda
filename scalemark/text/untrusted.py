"""Makes text from outside (processes, logs, databases, files) safe to store and print."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from scalemark.text.wording import joined

MASK = "***"

_NAMED = re.compile(
    r"""(?<![\w-])(?P<name>[\w-]++)(?P<ends>["']?)[ \t]*(?P<sign>[=:])[ \t]*"""
    r"""|(?<!\S)(?P<flag>--?[\w.-]++)[ \t]+"""
)
_VALUE = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|)\S*""")
# what stands there may be named itself, as in `--login "pass": ...`
_NAMED_VALUE = rf"""(?:["']?[\w-]+["']?[=:][ \t]+|--?[\w-]+[ \t]+)?{_VALUE.pattern}"""
_SECRET_NAME = re.compile(  # wherever it is in a name
    r"(?:passwords?|passwd|passphrase|secrets?|credentials?|(?:api|access|account|private)[_-]?key"
    r"|access[_-]?signature"
    r"|(?<!pad[_-])(?<!eos[_-])(?<!bos[_-])(?<!eod[_-])(?<!unk[_-])(?<!cls[_-])(?<!sep[_-])"
    r"(?<!max[_-])(?<!num[_-])(?<!min[_-])(?<!per[_-])(?<!seq[_-])(?<!mask[_-])(?<!image[_-])"
    r"(?<!class[_-])(?<!video[_-])(?<!padding[_-])token(?![_-](?:budget|counts?|dim|dispatcher"
    r"|drop|dropout|ids?|index|len|length|level|limit|loss|masks?|merge|merging|num|rate|ratio"
    r"|size|type|weights?)(?:[_-]|\Z)))(?=[\d_-]|\Z)"
)
_HARMLESS = re.compile(  # before key, private, signature or pass
    "answer|audio|backward|batch|by|cache|caption|com|content|feature|first|fn|forward|function"
    "|gpu|group|hash|image|images|input|kv|label|last|messages|metric|num|output|over|primary"
    "|prompt|query|question|response|reward|rng|second|single|software|sort|text|up|video"
)
_NO_SECRETS = (  # the last names a variable of a shell
    r"(?:true|false|yes|no|on|off|none|null|0|1|\$\{{0,2}\w+\}{0,2})(?![^\s,;)}\]'\"])"
)
_NO_SECRET = re.compile(rf"[\"']?{_NO_SECRETS}", re.IGNORECASE)
_WORKING_FOLDERS = ("PWD", "OLDPWD")  # a shell's own
# parts of every name that _is_named_secret takes for one
_WORDS = ("auth", "cookie", "credential", "key", "pass", "private", "pwd", "secret", "sig", "token")
_TOKENS_OF_TEXT = re.compile(
    r"tokeni[sz][a-z]*|(?:batch|max|min|num|per|seq|total)_(?:(?:[a-z]+_)?tokens|token)|tokens_per_"
)
_REASON = re.compile(r" [A-Za-z]+ [a-z]+\b")  # what is said of a path: two plain words or more
_LONGEST_PATH = 4096
_SHAPES = (
    r"gh[oprsu]_\w{16,}",  # GitHub
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{16,}",  # GitLab
    r"sk-[\w-]{16,}",  # OpenAI, Anthropic
    r"[rs]k_(?:live|test)_\w{10,}",  # Stripe
    r"(?:AKIA|ASIA)[A-Z0-9]{16,}",  # AWS
    r"hf_\w{16,}",  # Hugging Face
    r"xox[a-z]-[\w-]{10,}",  # Slack
    r"AIza[\w-]{30,}",  # Google
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[\w-]{40,}",
    r"do[opr]_v1_\w{16,}",  # DigitalOcean
    r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]+(?:\.[\w-]+)?",  # JSON web tokens
)


def _until_last_at(match: re.Match[str]) -> str:
    """Mask a password before the last @; without one, the pattern still reads no text twice."""
    password, at, host = match[2].rpartition("@")
    if not at or _NO_SECRET.fullmatch(password):
        return match[0]
    return f"{match[1]}:{MASK}@{host}"


def _of_a_user(match: re.Match[str]) -> str:
    """Mask the password behind a user, as curl takes it; of containers that is a group."""
    before = match.string[: match.start()]
    if _OTHER_USERS.search(before):
        return match[0]
    return f"{match[1]}{match[2]}:{MASK}"


def _behind_p(match: re.Match[str]) -> str:
    """Mask a password that follows `-p` at once; of Slurm that is a partition."""
    before = match.string[max(0, match.start() - _MOST_BEFORE) : match.start()]
    last_command = re.split(r"[;&|]", before)[-1]
    if re.search(r"\b(?:srun|sbatch|salloc|sinfo|squeue)\b", last_command):
        return match[0]
    return f"{match[1]}{MASK}"


_MOST_BEFORE = 500  # characters, so that a long text takes no longer than its length
_OTHER_USERS = re.compile(r"\b(?:docker|podman|nerdctl|apptainer|singularity)\b|\bpython[\d.]*\s*$")
_Masked = str | Callable[[re.Match[str]], str]


def _rule(
    signs: str, pattern: str, masked_as: _Masked = rf"\1{MASK}"
) -> tuple[Sequence[str], re.Pattern[str], _Masked]:
    return signs.split("|"), re.compile(pattern), masked_as


# one of the signs is in what the pattern finds; each takes time linear in the text
_RULES = (
    # of one slash, too: so paths show what was a URL
    _rule("@", r"(:/{1,2}[^\s/@:]*+):(\S*)", _until_last_at),
    _rule("@", r"(:/{1,2}[^\s/@:\[]*+:)(?!\d+\b|\$)[^\s/@][^\r\n/@]{0,100}(?=@)"),  # with spaces
    # a token stands where others have a user
    _rule("@", r"(?i)(\bhttps?:/{1,2})(?![^\s/@:]*:?\$\{*\w+\}*@)[^\s/@?#]+(?=@)"),
    _rule(
        "hooks.slack|discord",
        r"(?i)(\b(?:hooks\.slack\.com/\w+|discord(?:app)?\.com/api/webhooks)/)\S+",
    ),
    _rule(
        "authorization",
        r"(?i)(authorization[\"']?\s*[:=]\s*)"
        r"(?:[\"']?(?:bearer|basic|digest|token|negotiate)\s+)?" + _NAMED_VALUE,
    ),
    _rule("bearer", rf"(?i)\b(bearer)\s+{_NAMED_VALUE}", rf"\1 {MASK}"),
    _rule(
        "-u|user",
        r"(?i)(?<!\S)(-u\s*|--(?:proxy-)?user(?:pass)?[= ]\s*)([^\s:$/]{1,64})"
        r":(?!\d+\b|\*{3})[^\s$/]+",
        _of_a_user,
    ),
    _rule(
        "-p",  # of digits and letters, or of small and large ones; no word with a number behind
        r"(?<!\S)(-p)(?!\*{3}|(?:a[rdt]|er|eft|hase|i[npx]|o[irlsw]|lot|ool|re|ro|t?hread)"
        r"[a-z]*[\d.]*(?!\S)|[\d.]+[a-z]{0,2}(?!\S))"
        r"(?:(?=[^\s\d]*\d)(?=\S*[A-Za-z])|(?=[^\sa-z]*[a-z])(?=[^\sA-Z]*[A-Z]))"
        r"[^\s=/.,:*-]{6,}(?!\S)",
        _behind_p,
    ),
    _rule(
        "-p",
        r"(\b(?:mysql\w*|mariadb\w*|sshpass|mongo\w*|7z\w*)\b[^;&|\n]{0,200}?\s-p)"
        r"(?!\*{3})[^\s$*-]\S*",
    ),
    _rule(
        "sshpass|wandb|-pw|redis-cli|zip|-pass|login",
        r"(\b(?:sshpass|(?:docker|podman)\s+login[^;&|\n]{0,200}?)\s+-p\s+"
        r"|\bwandb\s+login\s+(?:--\w+\s+)*|(?<!\S)-pw\s+"
        r"|\bredis-cli\b[^;&|\n]{0,200}?\s-a\s+|\b(?:un)?zip\b[^;&|\n]{0,200}?\s-P\s+"
        rf"|(?<!\S)-pass(?:in|out)\s+pass:)(?!-|\*{{3}}|{_NO_SECRETS})\S+",
    ),
    _rule(
        "pw=|otp=|pin=|login=|license=|passcode=",
        r"(?<![\w.-])((?:\w*_)?(?:PW|OTP|PIN|LOGIN|LICENSE|PASSCODE)=)"
        rf"(?!\*{{3}}|(?i:{_NO_SECRETS}))" + _VALUE.pattern,
    ),
    _rule(
        "-p|.p|otp|-log|.log|-lic|.lic|jwt",
        r"(?<!\S)(?<!sh )"
        r"(--?(?:[\w-]+\.)*(?:pw|passcode|otp|pin(?:-?code)?|login|license|jwt)(?:=|\s+))"
        rf"(?!-|\*{{3}}|(?i:{_NO_SECRETS}))" + _NAMED_VALUE,
    ),
    _rule("cookie", r"(?i)(\bcookie[\"']?[ \t]*:[ \t]*)[^\r\n]*"),  # to the end of the line
    _rule(  # one of the signs is in every text that _SHAPES match
        "-|_|akia|asia|aiza|eyj", rf"(?<![A-Za-z0-9])(?:{'|'.join(_SHAPES)})", MASK
    ),
    _rule(
        "private key",
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        MASK,
    ),
)
_SIGNS = {sign for signs, *_ in _RULES for sign in signs}.union(_WORDS)
_ANY_SIGN = re.compile("|".join(map(re.escape, sorted(_SIGNS))))  # thousands of cells have none
_URL_ALONE = re.compile(r"(:/{1,2}[^\s/@:]*+):(.*)", re.DOTALL)


def names_a_secret(variable: str) -> bool:
    """Return whether the name of an unknown variable is like that of a secret."""
    lowered = _TOKENS_OF_TEXT.sub("", variable.lower())
    return any(word in lowered for word in _WORDS)


def without_secrets(text: str) -> str:
    """Return the text with *** for what looks like a secret. Masked text stays as it is.

    A secret is known by what stands before it (`password=`, `token:`, `--api-key `,
    `Authorization:`, `://user:`) or by its shape. In running text it ends with a space.
    """
    lowered = text.lower()
    if not _ANY_SIGN.search(lowered):
        return text
    for signs, pattern, masked_as in _RULES:
        if any(sign in lowered for sign in signs):
            text = pattern.sub(masked_as, text)
    if any(word in lowered for word in _WORDS):
        return _without_named(text)
    return text


def command_line(arguments: Sequence[str]) -> str:
    """Return a command as it is stored, with the argument behind a `--password` masked."""
    shown: list[str] = []
    before = ""
    for argument in arguments:
        text = argument
        if "=" in argument or not argument.startswith("-p"):
            text = masked(argument)
        flag = _NAMED.fullmatch(f"{before} ")
        if flag and _is_named_secret(flag):
            if not _NO_SECRET.fullmatch(argument):
                text = MASK
        elif before.startswith("-") or before == "login" or text.startswith("-"):
            # known with the words before it
            begin = " ".join(word for word in shown if " " not in word)
            text = without_secrets(f"{begin} {text}")[len(begin) + 1 :]
        before = text
        shown.append(text)
    return joined(shown)


@lru_cache(maxsize=4096)  # the cells of a grid say the same again and again
def masked(text: str) -> str:
    """Mask one argument, or the address of a database; a secret in it may have spaces."""
    text = _URL_ALONE.sub(_until_last_at, text)
    for match in _NAMED.finditer(text):
        if match["sign"] == "=" and _is_named_secret(match):
            if not _NO_SECRET.fullmatch(text, match.end()):
                text = text[: match.end()] + MASK
            break
    return without_secrets(text)


def _without_named(text: str) -> str:
    """Mask the values behind names of secrets."""
    shown = ""
    rest = position = 0
    while match := _NAMED.search(text, position):
        position = match.end()
        named_again = _NAMED.match(text, position + text.startswith(("'", '"'), position))
        if named_again and _is_named_secret(named_again):
            continue  # the secret stands behind the second name
        if not _is_named_secret(match) or _NO_SECRET.match(text, position):
            continue
        value = _VALUE.match(text, position)
        if value:
            shown += text[rest:position] + MASK
            rest = position = value.end()
    return shown + text[rest:]


def _ends_a_path(match: re.Match[str]) -> bool:
    """Return whether a name is the last part of a path that something is said of, as in
    `/etc/passwd: file is not a database`.
    """
    text, start = match.string, match.start()
    if match["sign"] != ":" or text[start - 1 : start] != "/":
        return False
    if not _REASON.match(text, match.end("sign")):
        return False
    folder = text[max(0, start - _LONGEST_PATH) : start].rsplit(maxsplit=1)[-1].lstrip("'\"(")
    begins = folder.startswith(("/", "./", "../", "~/"))
    return begins and ":" not in folder and len(folder) < _LONGEST_PATH


def _is_named_secret(match: re.Match[str]) -> bool:
    """Return whether a name is of a secret: `db_pass` is, `warm_up_pass` and `passes` are not."""
    if _ends_a_path(match):
        return False
    *groups, name = (match["name"] or match["flag"]).split(".")  # as in --hub.token
    if name in _WORKING_FOLDERS and match.string.startswith("/", match.end()):
        return False
    lowered = name.lower().strip("_-")
    if _SECRET_NAME.search(lowered):
        return True
    *before, last = re.split("[_-]", lowered)
    is_set = match["sign"] == "="
    if last in ("auth", "pwd"):
        return True
    if last.endswith(("auth", "pwd", "cookie", "cookies")):
        return is_set
    if last not in ("key", "private", "sig", "signature", "pass"):
        return (
            is_set and last.endswith("pass") and not _HARMLESS.fullmatch(last.removesuffix("pass"))
        )
    if before or (match["flag"] and not groups):
        return not before or not _HARMLESS.fullmatch(before[-1])
    if last == "pass" and (match["ends"] or groups):
        return True
    in_query = match.string[max(0, match.start() - 1)] in "?&"
    return is_set and (last in ("sig", "pass") or name.isupper() or in_query)


MOST_CHARACTERS = 2000
"""Length of one message, stored or shown; the log has the rest."""

_MOST_SHOWN = 2**14  # characters of a cell: some are megabytes
_SHORT = 200
_CUT = "…"
_LINES = "\n\t"


def visible(text: str) -> str:
    """Mask secrets, and show what a terminal would obey (escapes, newlines) as Python writes it."""
    if len(text) <= _SHORT:
        return _visible_cell(text)
    return quoted(text, _MOST_SHOWN)


def quoted(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return visible text, cut to so many characters."""
    return _cut(_shown(_begin(text, most), ""), most)


def quoted_lines(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return quoted text whose lines stay lines. Doing it again changes nothing."""
    return _cut(_shown(_begin(text, most), _LINES), most)


@lru_cache(maxsize=4096)  # the cells of a table say the same again and again
def _visible_cell(text: str) -> str:
    return _shown(text, "")


def _shown(text: str, also: str) -> str:
    masked = without_secrets(text)
    if masked.isprintable():
        return masked
    printable = ""
    for character in masked:
        if not (character.isprintable() or character in also):
            character = character.encode("unicode_escape", "surrogatepass").decode("ascii")
        printable += character
    return without_secrets(printable)  # an escape may have become a part of a name


def _begin(text: str, most: int) -> str:
    """Cut a text of megabytes after a whole word, so that no secret is cut before it is masked."""
    looked_at = max(_MOST_SHOWN, 2 * most)
    if len(text) <= looked_at:
        return text
    begin = text[:looked_at]
    whole = begin.rsplit(maxsplit=1)[:-1]  # empty where there is but one word, or none
    return whole[0] if whole else begin


def _cut(text: str, most: int) -> str:
    """Cut text, but never within a mask: half a mask would be masked again."""
    if len(text) <= most:
        return text
    begin = text[: most - len(_CUT)]
    num_cut = 1.0
    while without_secrets(begin + _CUT) != begin + _CUT:
        begin = begin[: -int(num_cut)].rstrip()
        num_cut *= 1.1  # names and masks are short; hostile text has them behind each other
    return begin + _CUT


GRAPH_ERROR = "Graph execution error:"
_WHERE = re.compile(
    rf"{GRAPH_ERROR}|Detected at node|File \"|<stack traces unavailable>|\[\[\{{\{{node"
)


def telling_line(text: str) -> str:
    """Return the first line that does not only say where; else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if not _WHERE.match(line):
            return line
    return lines[0] if lines else ""


def for_markdown(text: str) -> str:
    """Escape what Markdown and HTML obey; both leave underscores within words alone."""
    return re.sub(r"[\\`*|<>\[\]#~&]|(?<!\w)_|_(?!\w)", r"\\\g<0>", visible(text))
