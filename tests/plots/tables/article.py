"""TensorFlow's tables of 2017, typed from the page itself: images/s by machine, data and number of GPUs.

Source: tensorflow/tensorflow at commit 5984ffefd320c5d71b801ee06079a51b91ea42c0, tensorflow/docs_src/performance/benchmarks.md.
"""

MODELS = ("inception3", "resnet50", "resnet152", "alexnet", "vgg16")
GPUS = (1, 2, 4, 8)

TABLES = [
    # (machine as we call it, data, batch sizes, models, rows for 1, 2, 4 and 8 GPUs)
    (
        "NVIDIA DGX-1 8xP100-SXM2 NVLink",
        "synthetic",
        (64, 64, 64, 512, 64),
        MODELS,
        """
        142         | 219       | 91.8       | 2987    | 154
        284         | 422       | 181        | 5658    | 295
        569         | 852       | 356        | 10509   | 584
        1131        | 1734      | 716        | 17822   | 1081
        """,
    ),
    (
        "NVIDIA DGX-1 8xP100-SXM2 NVLink",
        "real",
        (64, 64, 64, 512, 64),
        MODELS,
        """
        142         | 218       | 91.4       | 2890    | 154
        278         | 425       | 179        | 4448    | 284
        551         | 853       | 359        | 7105    | 534
        1079        | 1630      | 708        | N/A     | 898
        """,
    ),
    (
        "NVIDIA DGX-1 8xP100-SXM2 NVLink",
        "synthetic",
        (32, 32, 32, 32),
        ("inception3", "resnet50", "resnet152", "vgg16"),
        """
        128         | 195       | 82.7       | 144
        259         | 368       | 160        | 281
        520         | 768       | 317        | 549
        995         | 1485      | 632        | 820
        """,
    ),
    (
        "NVIDIA DGX-1 8xP100-SXM2 NVLink",
        "real",
        (32, 32, 32, 32),
        ("inception3", "resnet50", "resnet152", "vgg16"),
        """
        130         | 193       | 82.4       | 144
        257         | 369       | 159        | 253
        507         | 760       | 317        | 457
        966         | 1410      | 609        | 690
        """,
    ),
    (
        "GCE n1-standard-32-k80x8",
        "synthetic",
        (64, 64, 32, 512, 32),
        MODELS,
        """
        30.5        | 51.9      | 20.0       | 656     | 35.4
        57.8        | 99.0      | 38.2       | 1209    | 64.8
        116         | 195       | 75.8       | 2328    | 120
        227         | 387       | 148        | 4640    | 234
        """,
    ),
    (
        "GCE n1-standard-32-k80x8",
        "real",
        (64, 64, 32, 512, 32),
        MODELS,
        """
        30.6        | 51.2      | 20.0       | 639     | 34.2
        58.4        | 98.8      | 38.3       | 1136    | 62.9
        115         | 194       | 75.4       | 2067    | 118
        225         | 381       | 148        | 4056    | 230
        """,
    ),
    (
        "GCE n1-standard-32-k80x8",
        "synthetic",
        (32, 32),
        ("inception3", "resnet50"),
        """
        29.3                        | 49.5
        55.0                        | 95.4
        109                         | 183
        216                         | 362
        """,
    ),
    (
        "GCE n1-standard-32-k80x8",
        "real",
        (32, 32),
        ("inception3", "resnet50"),
        """
        29.5                        | 49.3
        55.4                        | 95.3
        110                         | 186
        216                         | 359
        """,
    ),
    (
        "AWS p2.8xlarge 8xK80",
        "synthetic",
        (64, 64, 32, 512, 32),
        MODELS,
        """
        30.8        | 51.5      | 19.7       | 684     | 36.3
        58.7        | 98.0      | 37.6       | 1244    | 69.4
        117         | 195       | 74.9       | 2479    | 141
        230         | 384       | 149        | 4853    | 260
        """,
    ),
    (
        "AWS p2.8xlarge 8xK80",
        "real",
        (64, 64, 32, 512, 32),
        MODELS,
        """
        30.5        | 51.3      | 19.7       | 674     | 36.3
        59.0        | 94.9      | 38.2       | 1227    | 67.5
        118         | 188       | 75.2       | 2201    | 136
        228         | 373       | 149        | N/A     | 242
        """,
    ),
    (
        "AWS p2.8xlarge 8xK80",
        "synthetic",
        (32, 32),
        ("inception3", "resnet50"),
        """
        29.9                        | 49.0
        57.5                        | 94.1
        114                         | 184
        216                         | 355
        """,
    ),
    (
        "AWS p2.8xlarge 8xK80",
        "real",
        (32, 32),
        ("inception3", "resnet50"),
        """
        30.0                        | 49.1
        57.5                        | 95.1
        113                         | 185
        212                         | 353
        """,
    ),
]

STRATEGIES = {
    "NVIDIA DGX-1 8xP100-SXM2 NVLink": dict.fromkeys(MODELS[:3], "ps_cpu")
    | dict.fromkeys(MODELS[3:], "replicated_nccl"),
    "GCE n1-standard-32-k80x8": dict.fromkeys(MODELS, "ps_cpu"),
    "AWS p2.8xlarge 8xK80": {"inception3": "ps_cpu", "alexnet": "ps_gpu", "vgg16": "ps_gpu"}
    | dict.fromkeys(("resnet50", "resnet152"), "replicated_none"),
}


def cells(text: str) -> list[list[str]]:
    """Rows of a table as they stand on the page."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
