"""`auto` becomes a sensible value, and what means nothing is refused with the way out."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

import conf
from conf import schema
from conf.resolve import TrialRefusedError, resolve
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_NAMES, TrialSpec, strategy_name

FOLDER = Path(conf.__file__).parent
GPU, CPU_DEVICE = DeviceKind.GPU, DeviceKind.CPU_DEVICE


def config(*overrides: str) -> schema.Config:
    schema.register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return schema.typed(compose("config", overrides=list(overrides)))


def trial(*overrides: str, kind: DeviceKind = CPU_DEVICE, num_devices: int = 8) -> TrialSpec:
    return resolve(config(*overrides), kind, num_devices)


def test_the_default_strategy_on_gpus_is_replicated_nccl():
    spec = trial("num_gpus=4", kind=GPU)
    assert (spec.variable_update, spec.all_reduce, spec.local_parameter_device) == (
        "replicated",
        "nccl",
        "gpu",
    )


def test_the_default_strategy_on_cpu_devices_is_replicated_without_nccl():
    assert trial("num_gpus=4").all_reduce == "none"


def test_the_plain_command_is_small_on_a_laptop_and_full_size_on_gpus():
    small, full = trial(), trial(kind=GPU)
    assert (small.image_px, small.batch_size, small.num_steps) == (64, 4, 10)
    assert (full.image_px, full.batch_size, full.num_steps, full.min_warm_up_steps) == (
        224,
        64,
        100,
        10,
    )


@pytest.mark.parametrize(
    ("model", "image_px", "batch_size"),
    [
        ("alexnet", 227, 512),
        ("vgg16", 224, 64),
        ("resnet50", 224, 64),
        ("resnet152", 224, 32),
        ("inception3", 299, 32),
        ("resnet18_cifar", 32, 128),
    ],
)
def test_full_size_is_the_ancestors(model, image_px, batch_size):
    spec = trial(f"model={model}", kind=GPU)
    assert (spec.image_px, spec.batch_size) == (image_px, batch_size)


@pytest.mark.parametrize(
    ("capability", "gib", "wanted"),
    [
        ((6, 0), 16, ("fp32", "NCHW", "none", 64)),
        ((7, 0), 15.8, ("fp16", "NHWC", "dynamic", 64)),
        ((7, 0), 31.7, ("fp16", "NHWC", "dynamic", 128)),
        ((8, 0), 39.4, ("bf16", "NHWC", "none", 128)),
        ((8, 9), 22.5, ("bf16", "NHWC", "none", 64)),
        ((9, 0), 79.6, ("bf16", "NHWC", "none", 256)),
        ((9, 0), 140.4, ("bf16", "NHWC", "none", 512)),
        (None, None, ("fp32", "NCHW", "none", 64)),
    ],
)
def test_auto_is_what_the_gpus_are_made_for(capability, gib, wanted):
    """A bug: the first number on an H100 was of fp32, without tensor cores, and of a batch for 16 GiB."""
    memory_bytes = gib and round(gib * 2**30)
    spec = resolve(config(), GPU, 8, capability, memory_bytes=memory_bytes)
    assert (spec.precision, spec.data_format, spec.loss_scale, spec.batch_size) == wanted


@pytest.mark.parametrize(
    ("model", "capability", "gib", "wanted"),
    [
        ("gpt2", (6, 0), 15.9, 4),  # P100
        ("gpt2", (6, 1), 11.9, 2),  # Titan X
        ("gpt2", (7, 5), 10.8, 4),  # RTX 2080 Ti
        ("gpt2", (8, 6), 23.6, 8),  # RTX 3090
        ("gpt2", (9, 0), 79.6, 32),
        ("vit_b16", (6, 0), 15.9, 32),
        ("bert_large", (6, 0), 15.9, 16),
        ("gpt2", None, None, 8),
    ],
)
def test_a_batch_that_would_not_fit_is_halved(model, capability, gib, wanted):
    """A bug: GPT-2 as it comes was out of memory on every card of up to 16 GiB."""
    memory_bytes = gib and round(gib * 2**30)
    spec = resolve(config(f"model={model}"), GPU, 8, capability, memory_bytes=memory_bytes)
    assert spec.batch_size == wanted


@pytest.mark.parametrize(
    "others",
    [["num_gpus=8", "precision=fp32"], ["optimizer=adam"], ["seq_len=64"], ["strategy=ps_cpu"]],
)
def test_all_trials_of_a_grid_have_one_batch(others):
    spec = resolve(config("model=gpt2", *others), GPU, 8, (7, 5), memory_bytes=11 * 2**30)
    assert spec.batch_size == 4


def test_auto_on_cpu_devices_and_of_what_is_asked_for_stays():
    plain = resolve(config(), CPU_DEVICE, 8, (9, 0), memory_bytes=2**37)
    assert (plain.precision, plain.batch_size) == ("fp32", 4)
    asked = resolve(config("precision=fp32", "batch_size=8"), GPU, 8, (9, 0), memory_bytes=2**37)
    assert (asked.precision, asked.batch_size) == ("fp32", 8)


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "model").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_model_resolves(path):
    assert trial(f"model={path.stem}").model == path.stem


@pytest.mark.parametrize("name", STRATEGY_NAMES.values())
def test_a_strategy_sets_the_three_axes_of_its_column(name):
    spec = trial(f"strategy={name}", "num_gpus=2", kind=GPU)
    assert strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce) == name


def test_strong_scaling_splits_the_batch():
    assert trial("scaling=strong", "batch_size=32", "num_gpus=4").batch_size == 8


def test_strong_scaling_splits_the_batch_over_micro_batches_too():
    spec = trial("scaling=strong", "batch_size=32", "num_gpus=4", "gradient_accumulation=2")
    assert (spec.batch_size, spec.examples_per_step) == (4, 32)


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_replicas_of_all_hosts_split_a_batch_of_strong_scaling(hosts):
    spec = trial(
        "scaling=strong",
        "batch_size=32",
        "num_gpus=4",
        f"hosts={hosts}",
        "strategy=distributed_ring",
    )
    assert (spec.batch_size, spec.gpus_per_host) == (8, 4 // hosts)


def test_photographs_are_distorted_and_synthetic_images_are_not():
    assert trial("data=photos").distortions
    assert not trial("data=photos", "distortions=false").distortions
    assert not trial().distortions


def test_digits_are_never_distorted():
    assert not trial("data=digits").distortions


def test_small_sets_are_kept_in_memory_and_imagenet_is_not():
    assert trial("data=photos").cache
    assert not trial("data=imagenet", "data.dir=/imagenet").cache
    assert trial("data=imagenet", "data.dir=/imagenet", "cache=true").cache


REFUSED = {  # overrides of a cell, and what is said of it
    "num_gpus=0": "num_gpus=0: wanted 1 or more",
    "num_gpus=9": r"num_gpus=9: there are 8 CPU devices \(hardware.num_cpu_devices raises that\)",
    "batch_size=many": "batch_size=many: wanted a whole number or auto",
    "batch_size=0": "batch_size=0: wanted 1 or more",
    "learning_rate=nan": "learning_rate=nan: wanted a finite number",
    "all_reduce=nccl": "all_reduce=nccl: NCCL needs one physical GPU per replica; these replicas are CPU devices",
    "strategy=ps_cpu all_reduce=pscpu": "all_reduce=pscpu: not with variable_update=parameter_server, because gradients meet",
    "variable_update=replicated local_parameter_device=cpu": "ask for all_reduce=pscpu",
    "variable_update=independent all_reduce=pscpu": "replicas train alone",
    "scaling=strong batch_size=4 num_gpus=8": "splits it over num_gpus=8, which does not divide it",
    "scaling=strong batch_size=24 num_gpus=2 gradient_accumulation=8": r"batch_size=24: scaling=strong splits it over num_gpus=2 \* gradient_accumulation=8, which does not divide it",
    "gradient_accumulation=0": "gradient_accumulation=0: wanted 1 or more",
    "strategy=sharded": "num_gpus=1: variable_update=sharded takes 2 replicas or more; raise num_gpus, or choose variable_update=replicated",
    "strategy=sharded num_gpus=2 all_reduce=pscpu": "all_reduce=pscpu: not with variable_update=sharded, because each GPU keeps one shard",
    "model=vgg16 image_px=16": "image_px=16: vgg16 needs at least 32",
    "distortions=true": "data=synthetic has no images to distort",
    "distortions=perhaps": "distortions=perhaps: wanted true, false or auto",
    "data.dir=/tmp": "data.dir=/tmp: data=synthetic reads no folder",
    "data=digits distortions=true": "data=digits has no images to distort; leave it out or choose data=photos",
    "data=imagenet": r"data=imagenet: wanted data.dir=FOLDER, with its files train-\*-of-\*",
    "data=photos model.num_classes=8": "data=photos: it has labels up to 8; choose a model of 9 classes or more, resnet50 has 8",
    "loss_scale=0 precision=fp16": "loss_scale=0: wanted auto, none, dynamic, static, or a number greater than 0",
    "loss_scale=1e39 precision=fp16": "wanted auto, none, dynamic, static, or a number greater than 0",
    "gradient_repacking=257": "gradient_repacking=257: wanted 256 or less",
    "data_threads=100000": "data_threads=100000: wanted 1024 or less",
    "loss_scale=128": "loss_scale=128: only fp16 needs one, the trial says precision=fp32; leave it out",
    "precision=tf32": "precision=tf32: TensorFloat-32 is a way of GPUs; these replicas are CPU devices",
    "data_format=NCHW precision=fp16": "CPUs have no float16 convolution in it; choose another precision, or NHWC",
    "variable_update=independent precision=fp16 loss_scale=dynamic": "loss_scale=dynamic: not with variable_update=independent, whose replicas would have to agree on skipping",
    "staged_vars=true": "staged_vars=true: not with variable_update=replicated; only a parameter server's weights",
    "strategy=ps_cpu gradient_repacking=2": "gradient_repacking=2: not with variable_update=parameter_server all_reduce=none; choose variable_update=distributed_all_reduce, distributed_sharded, mirrored, process_per_gpu, replicated, sharded$",
    "variable_update=mirrored all_reduce=ring gradient_repacking=2": "not with variable_update=mirrored all_reduce=ring; it takes all_reduce=nccl, hierarchical_copy",
    "strategy=fit xla=on": "xla=on: variable_update=fit trains with",
    "strategy=fit gradient_accumulation=2": "gradient_accumulation=2: variable_update=fit trains with",
    "strategy=fit steps_per_execution=10": "steps_per_execution=10: variable_update=fit trains with",
    "strategy=fit learning_rate_warm_up=5": "learning_rate_warm_up=5: variable_update=fit trains with",
    "strategy=fit data=photos": "data=photos: variable_update=fit trains with",
    "strategy=fit profile=true": "profile=true: variable_update=fit trains with",
    "strategy=fit precision=fp16": "precision=fp16 loss_scale=dynamic: variable_update=fit trains with loss_scale=none alone; choose another precision or another strategy",
    "strategy=fit gradient_repacking=2": "gradient_repacking=2: not with variable_update=fit all_reduce=collective; choose",
    "variable_update=fit all_reduce=ring": "because Model.fit leaves that to tf.distribute.MirroredStrategy; it takes collective",
    "variable_update=mirrored compact_gradients=true": "sends gradients as they are; choose variable_update=distributed_all_reduce, replicated",
    "variable_update=mirrored all_reduce=psgpu": "because these are the ways of tf.distribute.MirroredStrategy",
    "variable_update=mirrored all_reduce=hierarchical_copy num_gpus=3": "tf.distribute sums wrongly over an odd number of replicas; num_gpus=3",
    "hosts=2 num_gpus=4": "hosts=2: variable_update=replicated is of one host; choose strategy=distributed_ps, distributed_replicated, distributed_ring, distributed_nccl, distributed_sharded, multi_worker_mirrored_ring, multi_worker_mirrored_nccl",
    "hosts=0 strategy=distributed_ring": "hosts=0: wanted 1 or more",
    "hosts=2 num_gpus=3 strategy=distributed_ring": "num_gpus=3: counts the replicas of all hosts=2, each of which takes as many; wanted a multiple of 2",
    "hosts=2 strategy=distributed_ring": "num_gpus=1: counts the replicas of all hosts=2",
    "hosts=2 num_gpus=4 strategy=multi_worker_mirrored_ring": "num_gpus=4: on CPUs variable_update=multi_worker_mirrored uses one device per host; choose num_gpus=2, or as many hosts as replicas",
    "hosts=2 num_gpus=4 strategy=distributed_nccl": "all_reduce=nccl: NCCL needs one physical GPU per replica",
    "optimizer=adam momentum=0.5": "momentum=0.5: optimizer=adam has none; leave it out",
    "learning_rate_warm_up=-1": "learning_rate_warm_up=-1: wanted 0 or more",
    "min_window_s=-1": "min_window_s=-1.0: wanted a finite number, 0 or more",
    "prefetch=-1 data=photos": "prefetch=-1: wanted 0 or more",
    "cache=false": "cache=false: data=synthetic reads nothing, so that changes nothing; leave it out",
    "data_threads=2": "data_threads=2: data=synthetic reads nothing",
    "prefetch=0": "prefetch=0: data=synthetic reads nothing",
    "data=text": "data=text: it has tokens, and resnet50 takes images; choose data=synthetic, or a model that takes tokens",
    "data=digits model=gpt_mini": "data=digits: it has images, and gpt_mini takes tokens; choose data=synthetic, or a model that takes images",
    "data=text model=gpt_mini model.num_classes=100": "data=text: it has labels up to 255; choose a model of 256 classes or more, gpt_mini has 100",
    "data=text model=gpt_mini distortions=true": "distortions=true: data=text has no images to distort",
}


@pytest.mark.integration
@pytest.mark.parametrize("overrides", REFUSED)
def test_a_cell_that_means_nothing_is_refused(overrides):
    with pytest.raises(TrialRefusedError, match=REFUSED[overrides]):
        trial(*overrides.split())


def test_more_gpus_than_exist_are_refused():
    with pytest.raises(TrialRefusedError, match="num_gpus=4: there are 2 GPUs usable here"):
        trial("num_gpus=4", kind=GPU, num_devices=2)


def test_each_process_of_a_distributed_trial_may_have_a_mig_device():
    ring = ("strategy=distributed_ring", "hosts=2")
    assert resolve(config(*ring, "num_gpus=2"), GPU, 7, is_mig=True).gpus_per_host == 1
    with pytest.raises(
        TrialRefusedError,
        match="num_gpus=4 hosts=2: the usable devices are MIG slices, and CUDA shows a process",
    ):
        resolve(config(*ring, "num_gpus=4"), GPU, 7, is_mig=True)


@pytest.mark.parametrize(("precision", "capability"), [("bf16", (7, 5)), ("tf32", (7, 0))])
def test_a_precision_that_the_gpus_do_not_have_is_refused(precision, capability):
    said = f"precision={precision}: needs compute capability 8.0, found {capability[0]}.{capability[1]}"
    with pytest.raises(TrialRefusedError, match=said):
        resolve(config(f"precision={precision}"), GPU, 8, capability)
    assert resolve(config(f"precision={precision}"), GPU, 8, (9, 0)).precision == precision


def test_float16_has_a_dynamic_loss_scale_unless_reported_otherwise():
    assert trial("precision=fp16").loss_scale == "dynamic"
    assert trial("precision=fp16", "loss_scale=static").loss_scale == "128"
    assert trial("precision=fp16", "loss_scale=none").loss_scale == "none"
    assert trial("precision=fp16", "variable_update=independent").loss_scale == "none"
    assert trial().loss_scale == "none"


def test_a_loss_scale_is_one_trial_however_it_is_written():
    assert (
        trial("precision=fp16", "loss_scale=128").trial_id
        == trial("precision=fp16", "loss_scale=128.0").trial_id
    )


def test_the_default_data_format_is_the_one_the_kernels_are_made_for():
    assert trial().data_format == "NHWC"
    assert trial(kind=GPU).data_format == "NCHW"
    # TensorFlow transposes around each normalization in float32; XLA has none of it
    assert trial("precision=tf32", kind=GPU).data_format == "NCHW"
    assert trial("precision=tf32", "xla=on", kind=GPU).data_format == "NHWC"
    assert trial("precision=fp16", kind=GPU).data_format == "NHWC"


def test_an_optimizer_without_momentum_has_none_and_adam_its_own_rate():
    assert (trial("optimizer=sgd").momentum, trial().momentum) == (0.0, 0.9)
    assert trial("optimizer=adam").learning_rate == 0.001
    assert trial("optimizer=adam", "learning_rate=0.1").learning_rate == 0.1


def test_text_is_fed_by_a_pipeline():
    spec = trial("data=text", "model=bert_tiny", "prefetch=0", "data_threads=2")
    assert (spec.data, spec.prefetch, spec.data_threads) == ("text", 0, 2)


def test_adamw_decays_more_than_the_others_add_to_gradients():
    decays = {
        name: trial(f"optimizer={name}").weight_decay for name in ("momentum", "adam", "adamw")
    }
    assert decays == {"momentum": 4e-5, "adam": 4e-5, "adamw": 0.01}
    assert trial("optimizer=adamw", "weight_decay=0.1").weight_decay == 0.1


@pytest.mark.parametrize(
    ("kind", "seconds"), [(GPU, (5.0, 5.0)), (CPU_DEVICE, (0.0, 1.0))], ids=["gpu", "cpu"]
)
def test_gpus_are_measured_once_their_clocks_have_settled(kind, seconds):
    spec = trial(kind=kind)
    assert (spec.min_warm_up_s, spec.min_window_s) == seconds


@pytest.mark.parametrize("kind", [GPU, CPU_DEVICE])
def test_mirrored_takes_what_its_users_have_who_choose_nothing(kind):
    assert trial("variable_update=mirrored", kind=kind).all_reduce == "collective"


def test_a_new_axis_changes_no_identity_while_it_has_its_default():
    """This trial's id is that of the version which had none of xla, onednn, cache, min_window_s and their like."""
    assert trial("min_window_s=0").trial_id == TrialSpec.from_json(OLD).trial_id


OLD = (
    '{"all_reduce":"none","batch_size":4,"data":"synthetic","device_kind":"cpu_device","distortions":false,"image_px":64,'
    '"learning_rate":0.01,"local_parameter_device":"gpu","min_warm_up_steps":3,"model":"resnet50","momentum":0.9,'
    '"num_classes":1001,"num_gpus":1,"num_steps":10,"optimizer":"momentum","precision":"fp32","seed":1,'
    '"variable_update":"replicated","weight_decay":4e-05}'
)
