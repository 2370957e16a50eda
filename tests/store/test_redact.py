"""A secret never survives; what is none is left as it is."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemark.text.untrusted import (
    _RULES,
    _WORDS,
    _without_named,
    command_line,
    masked,
    without_secrets,
)

BEGINS = [
    "ghp_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "AKIA",
    "ASIA",
    "hf_",
    "xoxb-",
    "AIza",
]
BEGINS += ["npm_", "pypi-", "dop_v1_", "eyJ"]
ANY_SECRET = st.text(min_size=4, max_size=40).map(lambda text: f"s3cr3t{text}")
ONE_WORD = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=4, max_size=40).map(
    lambda text: f"s3cr3t{text}"
)
UNQUOTED = ONE_WORD.filter(lambda text: "'" not in text and '"' not in text)
AROUND = st.text(
    st.characters(codec="ascii", exclude_characters="s"), max_size=20
)  # cannot hold the secret itself

IN_TEXT = [
    "password=SECRET",
    "PASSWORD: SECRET",
    "TF_DB_PASSWD=SECRET",
    "sslmode=require&password=SECRET",
    "token=SECRET",
    "access_token=SECRET",
    "aws_secret_access_key = SECRET",
    "API_KEY=SECRET",
    "x-api-key: SECRET",
    "--password SECRET",
    "--api-key SECRET",
    "Authorization: Bearer SECRET",
    "authorization: Basic SECRET",
    "Bearer SECRET",
    "auth=SECRET",
    "cannot reach postgresql://me:SECRET@host:5432/db",
    "redis://:SECRET@host",
    "DB_PASS=SECRET",
    "pass=SECRET",
    '"smtp-pass": SECRET',
    "{'pass': SECRET",
    "--pass SECRET",
    "--db-pass SECRET",
    "post to https://hooks.slack.com/services/SECRET",
    "https://discord.com/api/webhooks/SECRET",
    "NCCL_SIGNING_KEY=SECRET",
    "TF_KEY=SECRET",
    "TF_MY_PASS=SECRET",
    "TF_PRIVATE=SECRET",
    "TF_MY_PWD=SECRET",
    "KEY=SECRET",
    "session_cookie=SECRET",
    "Cookie: id=SECRET; other=SECRET",
    "--signing-key SECRET",
    "https://bucket.example.org/data?sv=1&sig=SECRET",
    "https://bucket.example.org/data?sig=SECRET&se=2026",
    "https://bucket.example.org/data?X-Amz-Signature=SECRET",
    "https://example.org/data?key=SECRET",
    "https://example.org/data?private=SECRET",
    "NPM_AUTH=SECRET",
    "MYAUTH=SECRET",
    "_authToken=SECRET",
    "DBPASS=SECRET",
    "AccountKey=SECRET",
    "SharedAccessKey=SECRET",
    "SharedAccessSignature=SECRET",
    "sig=SECRET",
    "DB_PWD=/SECRET",
    "PWD=SECRET",
    "PGPASSWORD=SECRET",
]


@pytest.mark.integration
@pytest.mark.parametrize("form", IN_TEXT)
@settings(deadline=None)
@given(secret=UNQUOTED, before=AROUND, after=AROUND)
def test_a_secret_in_text_never_survives(form, secret, before, after):
    assert "s3cr3t" not in without_secrets(f"{before} {form.replace('SECRET', secret)} {after}")


@pytest.mark.parametrize("before", ["--login", "--token", "token:", "bearer", "authorization:"])
@pytest.mark.parametrize("form", ['"smtp-pass": SECRET', "api_key: SECRET", "--db-pass SECRET"])
def test_a_secret_whose_name_stands_where_another_is_expected_does_not_survive(before, form):
    assert "SECRET" not in without_secrets(f"{before} {form}")


@pytest.mark.integration
@settings(deadline=None)
@given(secret=ANY_SECRET)
def test_a_secret_in_quotes_may_have_spaces(secret):
    quoted = '"' + secret.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert "s3cr3t" not in without_secrets(f'{{"password": {quoted}, "user": "me"}}')


@pytest.mark.parametrize(
    "form",
    [
        "store.url=postgresql://me:SECRET@host/db",
        "store.url='postgresql+psycopg://me:SECRET@host/db?sslmode=require'",
        "+x.password=SECRET",
    ],
)
@settings(deadline=None)
@given(secret=ANY_SECRET)
def test_a_secret_in_an_argument_never_survives_whatever_it_is_made_of(form, secret):
    reported = command_line(["sweep.py", form.replace("SECRET", secret), "num_gpus=1"])
    assert "s3cr3t" not in reported
    assert reported.endswith(" num_gpus=1")


@pytest.mark.parametrize("scheme", ["http", "https", "git+https", "HTTPS"])
def test_who_asks_over_http_may_be_a_token_and_is_reported_to_nobody(scheme):
    assert (
        without_secrets(f"cloning {scheme}://s3cr3t@github.com/x")
        == f"cloning {scheme}://***@github.com/x"
    )
    assert masked(f"{scheme}://me:s3cr3t@github.com/x") == f"{scheme}://***@github.com/x"


@settings(deadline=None)
@given(secret=ANY_SECRET)
def test_what_follows_a_password_flag_is_one(secret):
    assert (
        command_line(["sweep.py", "--db-password", secret, "x"]) == "sweep.py --db-password '***' x"
    )
    assert command_line(["sweep.py", "--pass", secret, "x"]) == "sweep.py --pass '***' x"


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 9,
        "sk-" + "a1B2" * 9,
        "sk-proj-" + "a1-B2_" * 5,
        "AKIA" + "A1B2" * 4,
        "hf_" + "a1B2" * 8,
        "xoxb-1234567890-abcdef",
        "glpat-" + "a1B2" * 5,
        "npm_" + "a1B2" * 9,
        "pypi-AgEIcHlwaS5vcmc" + "a1-B2_" * 6,
        "sk_live_" + "a1B2" * 6,
        "rk_test_" + "a1B2" * 6,
        "dop_v1_" + "a1b2" * 16,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_tokens_are_known_by_their_shape(secret):
    assert without_secrets(f"it said ({secret}) here") == "it said (***) here"


@settings(deadline=None)
@given(
    st.one_of(st.text(), st.lists(st.sampled_from([*IN_TEXT, *' "=:@/-']), max_size=8).map("".join))
)
def test_what_is_masked_already_stays_as_it_is(text):
    once = without_secrets(text)
    assert without_secrets(once) == once


@pytest.mark.parametrize(
    "command",
    [
        """python sweep.py -m model=resnet50 'sweep.exclude=["num_gpus>=4"]'""",
        "sweep.py experiment=cloud_article sweep.dry_run=true sweep.plan_format=json",
        "sweep.py store.url=/data/a@b:c/results.db store.runs_dir=runs data.dir=/mnt/secrets/set",
        "sweep.py store.url=sqlite:////data/results.db",
        "scalemark list software_key=0123456789abcdef gpu_thread_mode=gpu_private",
        "sweep.py store.url=postgresql://me@host:5432/db 'hydra.job.name=disk-usage of the author'",
        "sweep.py store.url=postgresql://postgres@/results?host=/run/postgresql num_passes=2 two_pass_fit=true",
        "git clone ssh://git@github.com/x && curl https://host:8080/path?to=3",
        "sweep.py -m 'hydra.sweeper.grids=[{model:\"glob(resnet*)\",num_gpus:[1,2]},{model:vgg16}]'",
    ],
)
def test_ordinary_commands_are_stored_as_they_are(command):
    assert command_line(shlex.split(command)) == shlex.join(shlex.split(command))
    assert without_secrets(command) == command


@pytest.mark.parametrize(
    "message",
    [
        "not finished within launcher.timeout_s=8",
        "first pass: 3 of 4 tests pass 'all' checks; bypass=1, pass_rate=0.75",
        "see https://example.org/user?mail=me@host and https://slack.com/help/articles",
        "out of memory; try a smaller batch_size (OOM when allocating tensor with shape[1,2] and type float)",
        "InvalidArgumentError: ordering tokens are 3, wanted 4 [Op:CollectiveReduceV2]",
        "KeyError: no such key: 'x'; signal: 9; private: 3; design=2; gpu_thread_mode=gpu_private: wanted global",
        "attempts: its software_key=0123456789abcdef is not the digest of its environment",
        "ended with exit code 3 and left no result: see log.txt in its run folder",
        "max_token_length=512, num_keys=2, passes: 3, bypass=1, compass=2, xla_dump_hlo_pass_re=.*",
        "sort_key=lambda batch: 1; 'batch_key': 2, cache_key: 0x7f, group_key=1, software_key=0",
        "warm_up_pass=3; forward_pass: 2; function_signature: (TensorSpec(shape=(None,)), input_signature=None",
        "PWD=/home/x OLDPWD=/home/y",
        "/etc/passwd: file is not a database; ./my/token: No such file or directory",
        "http://localhost:8080 is not reachable, mail me@host; see http://[::1]:80/ or me@host",
    ],
)
def test_ordinary_messages_are_left_as_they_are(message):
    assert without_secrets(message) == message


@pytest.mark.parametrize(
    "message",
    [
        "/login/password: s3cr3t is too short",
        "login/password: s3cr3t is too short",
        "/etc/passwd=s3cr3t is too short",
        "/spec/token:s3cr3t",
        "https://host/password: s3cr3t",
        '/spec/password: "s3cr3t too"',
    ],
)
def test_a_value_behind_a_path_is_masked(message):
    assert "s3cr3t" not in without_secrets(message)


@pytest.mark.parametrize("path", ["login/passwd", "https://host/passwd", "passwd"])
def test_what_begins_as_no_path_is_none(path):
    assert without_secrets(f"{path}: file is not") == f"{path}: *** is not"


def test_a_password_in_an_address_may_have_spaces():
    assert (
        without_secrets("cannot reach postgresql://u:p a@h:5432/db now")
        == "cannot reach postgresql://u:***@h:5432/db now"
    )


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([*IN_TEXT, "://", "@", *BEGINS, *_WORDS, *" \n=:\"'A1-_"]), max_size=12
    ).map("".join)
)
def test_no_rule_is_left_out_that_would_find_something(text):
    once = without_secrets(text)
    for _, pattern, masked_as in _RULES:
        once = pattern.sub(masked_as, once)
    assert _without_named(once) == without_secrets(text)


def test_the_address_of_a_database_is_shown_without_its_password():
    assert masked("postgresql://me:p w@host/db") == "postgresql://me:***@host/db"
    assert masked("postgresql://me@host/db?password=p") == "postgresql://me@host/db?password=***"
    assert masked("results.db") == "results.db"


HARMLESS = [
    "x -p 8080 -p8080 --user-batch 4 --pin-memory --pin_memory=true --pin 0",
    "sbatch -pgpu_a100 x -precision16 -pipeline8 -pretrained1 -pthread2",
    "x --moe-token-dispatcher-type alltoall --calculate-per-token-loss --bf16 --eod-token-id 3",
    "x --use_auth_token True auth=none --add_bos_token true --pad_token x",
    "x --pw $PW --token ${HF_TOKEN} -u me:$PW https://u:$PW@h/x && mysql -p$PW && wandb login $WANDB_API_KEY",
    "x data.prompt_key=prompt data.reward_fn_key=source --num-token 3 --text-key text",
]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("mysql -phunter2 x", "mysql -p*** x"),
        ("curl -u bob:hunter2 x", "curl -u bob:*** x"),
        ("curl --user=bob:hunter2 x", "curl --user=bob:*** x"),
        ("x --pw ab --pin=12 --otp 34", "x --pw *** --pin=*** --otp ***"),
        ("x --jwt hunter2 --userpass me:hunter3", "x --jwt *** --userpass me:***"),
        ("x --passcode 12 --login me --license K", "x --passcode *** --login *** --license ***"),
        ("mysql -u root -psecret x", "mysql -u root -p*** x"),
        ("sshpass -p hunter ssh x", "sshpass -p *** ssh x"),
        ("docker login -u me -p hunter reg", "docker login -u me -p *** reg"),
        (
            "x --hub.token K --db.pass p --a.b.otp 12",
            "x --hub.token *** --db.pass *** --a.b.otp ***",
        ),
        ("x --data.key text --data.sort_key id", "x --data.key text --data.sort_key id"),
        ("python t.py -pHunterTwo", "python t.py -p***"),
        ("curl --proxy-user bob:hunter2 x", "curl --proxy-user bob:*** x"),
        ("plink -pw hunter2 x -pin 1234", "plink -pw *** x -pin ***"),
        ("env PIN=1234 DB_PW=ab OTP=12 x", "env PIN=*** DB_PW=*** OTP=*** x"),
        ("wandb login hunter2 x", "wandb login *** x"),
        ("redis-cli -h h -a hunter2 ping", "redis-cli -h h -a *** ping"),
        ("unzip -q -P hunter2 x.zip; zip -P", "unzip -q -P *** x.zip; zip -P"),
        ("openssl rsa -passin pass:hunter2", "openssl rsa -passin pass:***"),
        ("7z x -phunter2 a.7z", "7z x -p*** a.7z"),
        ("x --api_key=hunter2 --bearer hunter3", "x --api_key=*** --bearer ***"),
        ("docker run -u me:users x", "docker run -u me:users x"),
        ("srun -p gpu -N2 bash --login -c x", "srun -p gpu -N2 bash --login -c x"),
        ("torchrun -p4 x --pin-memory 3", "torchrun -p4 x --pin-memory 3"),
        ("python -u train:main", "python -u train:main"),
        *((harmless, harmless) for harmless in HARMLESS),
    ],
)
def test_passwords_behind_short_options_are_masked(command: str, shown: str):
    assert without_secrets(command) == shown
    assert without_secrets(shown) == shown
    assert command_line(command.split()).replace("'", "") == shown
