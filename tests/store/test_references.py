"""References: the published ones, which are refused, and how they are added to a database and found there."""

from dataclasses import asdict, replace

import pytest
import sqlalchemy as sa

from scalemark.records.references import Reference, ReferenceKind, published
from store.reading.references import known_references
from store.rows import add_references
from store.schema import ReferenceRow
from tests.tables import asked

MINE = Reference(
    origin=ReferenceKind.ADDED.value,
    source="A blog",
    citation="Somebody, 2020, https://example.org/8gpus",
    hardware="8x V100?",
    model="resnet50?",
    batch_size=None,
    data="real?",
    variable_update="replicated",
    all_reduce="nccl",
    local_parameter_device="",
    precision="fp16",
    num_gpus=8,
    throughput=5000.5,
    evidence="seen",
)
HOSTILE = [
    "Robert'); DROP TABLE reference_results; --",
    'a "quoted" name',
    "two\nlines\r\nand\ttabs",
    "名前 ünï 🔥 \u202egnp.exe",
    "\x1b[31mred\x07",
    "=cmd|'/c calc'!A1",
    "[bold]x[/bold] :bomb: %s {0}",
    "x" * 10_000,
]


@pytest.fixture
def engine() -> sa.Engine:
    made = sa.create_engine("sqlite:///references.db")
    ReferenceRow.metadata.tables["reference_results"].create(made)
    return made


def test_the_published_references_are_valid_and_complete():
    references = published()
    assert len(references) == 423
    assert {reference.origin for reference in references} == {"published"}
    assert len({reference.key for reference in references}) == 423
    assert all(len(reference.citation) > 60 and reference.evidence for reference in references)
    assert sum(reference.throughput for reference in references) == pytest.approx(
        1052625.6455, abs=1e-4
    )


def test_every_published_citation_can_be_looked_up():
    """By an address, but for one question of which only a translation is known."""
    without = {
        reference.source for reference in published() if "https://" not in reference.citation
    }
    assert without == {"Question on TensorFlow against MXNet"}
    for reference in published():
        if "#" in reference.source:
            project, number = reference.source.split()[0].split("#")
            assert f"https://github.com/{project}/issues/{number}" in reference.citation


def test_each_source_of_published_references_has_one_citation():
    citations = {(reference.source, reference.citation) for reference in published()}
    assert len(citations) == len({source for source, _ in citations})


def test_published_attributes_are_our_words_or_marked_as_doubtful():
    words = {
        "model": {
            "resnet50",
            "resnet50_v1.5",
            "resnet101",
            "resnet152",
            "resnet110_cifar",
            "inception3",
            "vgg16",
            "alexnet",
            "trivial",
            "bert_large",
        },
        "data": {"", "real", "synthetic", "real(cached sample)"},
        "variable_update": {
            "",
            "parameter_server",
            "replicated",
            "distributed_replicated",
            "horovod",
            "ddp",
            "kvstore",
        },
        "all_reduce": {"", "n/a", "none", "nccl", "hierarchical_copy"},
        "local_parameter_device": {"", "n/a", "cpu", "gpu"},
        "precision": {
            "",
            "fp32",
            "fp16",
            "tf32",
            "mixed",
            "fp32+XLA",
            "fp16+XLA",
            "tf32+XLA",
            "mixed+XLA",
        },
    }
    for reference in published():
        for name, known in words.items():
            value = getattr(reference, name)
            assert value in known or value.endswith("?"), (name, value)


def test_a_published_parameter_server_has_no_all_reduce():
    servers = [
        reference
        for reference in published()
        if reference.variable_update.startswith("parameter_server")
    ]
    assert {reference.all_reduce for reference in servers} == {"none"}


@pytest.mark.parametrize(
    ("model", "hardware", "batch_size", "data", "num_gpus", "throughput"),
    [  # from the page itself
        ("vgg16", "NVIDIA DGX-1 8xP100-SXM2 NVLink", 64, "synthetic", 8, 1081),
        ("vgg16", "NVIDIA DGX-1 8xP100-SXM2 NVLink", 32, "real", 8, 690),
        ("alexnet", "GCE n1-standard-32-k80x8", 512, "real", 8, 4056),
        ("resnet152", "AWS p2.8xlarge x n/8 nodes K80", 32, "synthetic", 64, 981),
    ],
)
def test_published_figures_are_those_of_the_tensorflow_page(
    model, hardware, batch_size, data, num_gpus, throughput
):
    (found,) = [
        reference.throughput
        for reference in published()
        if reference.source == "TensorFlow benchmarks page (2017)"
        and (reference.model, reference.hardware, reference.batch_size)
        == (model, hardware, batch_size)
        and (reference.data, reference.num_gpus) == (data, num_gpus)
    ]
    assert found == throughput


@pytest.mark.parametrize(
    ("hardware", "precision", "seq_len", "num_gpus", "batch_size", "accumulation", "throughput"),
    [  # from the README itself
        ("DGX-2 16xV100-32G", "mixed+XLA", 128, 1, 60, 1024, 206.5),
        ("DGX-2 16xV100-32G", "mixed+XLA", 128, 16, 60, 64, 3077.99),
        ("DGX-2 16xV100-32G", "fp32+XLA", 512, 16, 4, 512, 161.38),
        ("DGX A100 8xA100-80G", "mixed+XLA", 512, 8, 40, 96, 649.69),
        ("DGX A100 8xA100-80G", "tf32+XLA", 128, 1, 176, 512, 282.98),
    ],
)
def test_published_figures_are_those_of_nvidias_bert(
    hardware, precision, seq_len, num_gpus, batch_size, accumulation, throughput
):
    (found,) = [
        reference
        for reference in published()
        if (reference.model, reference.hardware) == ("bert_large", hardware)
        and (reference.precision, reference.num_gpus) == (precision, num_gpus)
        and reference.axes["seq_len"] == seq_len
    ]
    assert found.axes == {
        "seq_len": seq_len,
        "gradient_accumulation": accumulation,
        "optimizer": "lamb",
    }
    assert (found.batch_size, found.throughput) == (batch_size, throughput)
    assert found.item == "sequences"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"throughput": float("nan")}, "throughput=nan: wanted a number from 1e-12 to"),
        ({"throughput": float("inf")}, "throughput=inf"),
        ({"throughput": 0.0}, "throughput=0.0"),
        ({"throughput": -3.0}, "throughput=-3.0"),
        ({"num_gpus": 0}, "num_gpus=0: wanted 1 or more"),
        ({"num_gpus": 2**31}, "num_gpus=2147483648: wanted 1 or more, up to 2147483647"),
        ({"batch_size": -1}, "batch_size=-1: wanted 1 or more"),
        ({"origin": "rumor"}, "origin='rumor': wanted one of published, added, table"),
        ({"source": "  "}, "source='  ': wanted one that others can look up"),
        ({"citation": "?"}, r"citation='\?': wanted one that others can look up"),
        ({"hardware": ""}, r"hardware is empty; write \? when it is not known"),
        ({"note": "a\x00b"}, "note: a NUL character in it"),
        ({"model": "\udcff"}, "model: half of a surrogate pair in it"),
        (
            {"citation": "https://me:secret@example.org/x"},
            "citation has an address with a password in it; leave the password out",
        ),
    ],
)
def test_an_impossible_reference_is_refused(change, message):
    with pytest.raises(ValueError, match=message) as refusal:
        replace(MINE, **change)
    assert "secret" not in str(refusal.value)


def test_references_in_chunks_keep_their_order_and_are_counted_once(engine):
    many = [replace(MINE, throughput=float(number)) for number in range(1, 1202)]
    with engine.begin() as connection:
        assert add_references(connection, iter(many + many[:600])) == 1201
        assert add_references(connection, iter(many)) == 0
    assert [row["throughput"] for row in asked(known_references, engine)] == [
        float(n) for n in range(1, 1202)
    ]


def test_a_reference_comes_back_as_it_was(engine):
    with engine.begin() as connection:
        add_references(connection, published())
    assert asked(known_references, engine) == [asdict(reference) for reference in published()]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_kept_as_it_is(engine, text):
    hostile = replace(MINE, source=text, hardware=text, model=text, citation=text, note=text)
    with engine.begin() as connection:
        assert add_references(connection, [hostile]) == 1
        assert add_references(connection, [hostile]) == 0
    assert asked(known_references, engine) == [asdict(hostile)]


def test_a_database_refuses_an_impossible_reference_by_itself(engine):
    row = {"key": "k", **asdict(MINE)}
    for impossible in ({"num_gpus": 0}, {"throughput": -1.0}):
        with pytest.raises(sa.exc.IntegrityError, match="CHECK"), engine.begin() as connection:
            connection.execute(sa.insert(ReferenceRow), [{**row, **impossible}])
