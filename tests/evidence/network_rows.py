"""Published times of whole networks, each with its source: what `tests.evidence.networks` compares predictions with."""

import dataclasses
from collections.abc import Iterator, Mapping

SOURCES = {
    "dle": "NVIDIA DeepLearningExamples, PyTorch/Classification/ConvNets/{resnet50v1.5, efficientnet}/README.md: "
    "containers 21.03",
    "dle-mxnet": "NVIDIA DeepLearningExamples, MxNet/Classification/RN50v1.5/README.md: container 20.12",
    "timm-3090": "huggingface/pytorch-image-models, results/benchmark-infer-amp-nhwc-pt113-cu117-rtx3090.csv",
    "timm-4090": "huggingface/pytorch-image-models, results/benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv",
    "trt4": "gist.github.com/1duo/efd3be1dc8eb2c45863b75f20a76f8b2: TensorRT 4.0.0.3, ResNet-50 of Caffe",
    "trt8": "NVIDIA TensorFlow Quantization Toolkit, model zoo: TensorRT 8.4, batches of 1",
    "trt-bert": "NVIDIA/TensorRT, demo/BERT/README.md: averages with fixed lengths of text",
    "mlperf": "MLPerf Inference, results of NVIDIA, closed division: v0.5 (MobileNet), v0.7 (A100, T4), v1.0 (Xavier), "
    "v2.0 (A30, Orin); SingleStream: mean latency",
    "lite": "tensorflow/tpu, models/official/efficientnet/lite/README.md: Pixel 4, its GPU and four threads",
    "jetson": "NVIDIA-AI-IOT/jetson_benchmarks, README.md and nx-benchmarks.csv: JetPack 4.4, GPU alone",
    "nnmeter": "microsoft/nn-Meter issue 83: Pixel 4, TensorFlow Lite 2.1 built from source, one thread",
    "xnnpack": "google/XNNPACK, README.md: Raspberry Pi 4, all cores, February 2020",
    "ncnn": "Tencent/ncnn, benchmark/README.md: Raspberry Pi 4 at 1.8 GHz, four threads and one",
    "coral": "Coral documentation, Edge TPU performance benchmarks: Dev Board",
}
"""Where rows are from."""

ENGINES = {
    "PyTorch": ("operators", "pytorch"),
    "MXNet": ("framework", "pytorch"),
    "TensorRT": ("compiler", "tensorrt"),
    "TensorRT 4": ("compiler", "tensorrt"),
    "TFLite": ("compiler", "tflite"),
    "XNNPACK": ("compiler", "tflite"),
    "TFLite GPU": ("compiler", "tflite-gpu"),
    "ncnn": ("compiler", "ncnn"),
    "Edge TPU": ("compiler", "edge-tpu"),
}
"""Engine -> fusion policy and constants that stand for it."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One published measurement."""

    network: str  # a name in `docs.examples.networks`
    device: str
    engine: str  # a key of `ENGINES`
    precision: str  # fp32, tf32, fp16, int8
    batch: int
    time: float  # s of one batch
    source: str  # a key of `SOURCES`
    training: bool = False  # one step; else inference
    size: int | None = None  # rows and columns of an image, or tokens; None: the network's own
    cores: int | None = None  # of the device that run; None: all
    clock: float | None = None  # Hz; None: the device's


def rows() -> list[Row]:
    """All measurements."""
    return [*_pytorch(), *_timm(), *_training(), *_tensorrt(), *_bert(), *_phones(), *_boards(), *_edge_tpu()]


def _rates(engine: str, source: str, device: str, network: str, precision: str, rates: Mapping[int, float], **more: bool
           ) -> Iterator[Row]:  # fmt: skip
    """Rows of images per second by batch."""
    for batch, rate in rates.items():
        yield Row(network, device, engine, precision, batch, batch / rate, source, **more)  # type: ignore[arg-type]


def _pytorch() -> Iterator[Row]:
    tables = {
        ("resnet50", "V100-SXM", "fp32"): {1: 96, 8: 709, 32: 1127, 128: 1229, 256: 1261},
        ("resnet50", "V100-SXM", "fp16"): {1: 78, 8: 595, 32: 2146, 128: 3249, 256: 3382},
        ("resnet50", "T4", "fp32"): {1: 98, 8: 363, 32: 420, 128: 426, 256: 415},
        ("resnet50", "T4", "fp16"): {1: 79, 8: 652, 32: 1128, 128: 1190, 256: 1198},
        ("efficientnet_b0", "A100-SXM-80GB", "tf32"): {1: 130, 8: 1004, 32: 3401, 128: 5001, 256: 5154},
        ("efficientnet_b0", "A100-SXM-80GB", "fp16"): {1: 105, 8: 803, 32: 2915, 128: 9311, 256: 10239},
        ("efficientnet_b4", "A100-SXM-80GB", "tf32"): {1: 69, 8: 491, 32: 651, 128: 700},
        ("efficientnet_b4", "A100-SXM-80GB", "fp16"): {1: 53, 8: 416, 32: 1208, 128: 1418},
        ("efficientnet_b0", "V100-SXM", "fp32"): {1: 83, 8: 657, 32: 2140, 128: 2908, 256: 2968},
        ("efficientnet_b0", "V100-SXM", "fp16"): {1: 62, 8: 495, 32: 1784, 128: 5759, 256: 6176},
        ("efficientnet_b4", "V100-SXM", "fp32"): {1: 45, 8: 316, 32: 365, 128: 376},
        ("efficientnet_b4", "V100-SXM", "fp16"): {1: 34, 8: 242, 32: 738, 128: 843},
    }
    for (network, device, precision), rates in tables.items():
        yield from _rates("PyTorch", "dle", device, network, precision, rates)


def _timm() -> Iterator[Row]:
    older = {"resnet18": 11083.1, "resnet34": 6496.42, "resnet50": 3668.58, "resnet101": 2258.28, "resnet152": 1581.02}
    older |= {"mobilenet_v2": 9598.91, "mnasnet": 11138.43, "efficientnet_b0": 7965.17, "efficientnet_lite0": 9361.14}
    older |= {"efficientnet_lite1": 6187.91, "efficientnet_lite2": 4781.65, "inception_v4": 1305.41, "vit_s16": 3218.38}
    newer = {"resnet18": 18247.43, "resnet34": 11246.05, "resnet50": 5088.39, "resnet101": 3320.94}
    newer |= {"mobilenet_v1": 14689.46, "mobilenet_v2": 11768.03, "mnasnet": 14430.36, "efficientnet_b0": 9831.68}
    newer |= {"efficientnet_lite0": 11509.61, "efficientnet_lite1": 7533.54, "efficientnet_lite2": 5818.57}
    for network, rate in older.items():
        yield from _rates("PyTorch", "timm-3090", "RTX-3090", network, "fp16", {1024: rate})
    for network, rate in {"vgg16": 1717.44, "vgg19": 1393.71}.items():
        yield from _rates("PyTorch", "timm-3090", "RTX-3090", network, "fp16", {256: rate})
    for network, rate in newer.items():
        yield from _rates("PyTorch", "timm-4090", "RTX-4090", network, "fp16", {512: rate})


def _training() -> Iterator[Row]:
    torch = {
        ("resnet50", "A100-SXM-80GB", "fp16"): {256: 2470},
        ("resnet50", "A100-SXM-80GB", "tf32"): {256: 938},
        ("resnet50", "V100-SXM", "fp16"): {256: 1200},
        ("resnet50", "V100-SXM", "fp32"): {112: 367},
        ("efficientnet_b0", "A100-SXM-80GB", "fp16"): {256: 2489},
        ("efficientnet_b0", "A100-SXM-80GB", "tf32"): {256: 1078},
        ("efficientnet_b0", "V100-SXM", "fp16"): {256: 1301},
        ("efficientnet_b0", "V100-SXM", "fp32"): {128: 655},
    }
    mxnet = {
        ("resnet50", "A100-SXM-80GB", "fp16"): {256: 2180},
        ("resnet50", "A100-SXM-80GB", "tf32"): {256: 1022},
        ("resnet50", "V100-SXM", "fp16"): {192: 1376, 256: 1492},
        ("resnet50", "V100-SXM", "fp32"): {96: 384, 128: 417},
    }
    for engine, source, tables in (("PyTorch", "dle", torch), ("MXNet", "dle-mxnet", mxnet)):
        for (network, device, precision), rates in tables.items():
            yield from _rates(engine, source, device, network, precision, rates, training=True)


def _tensorrt() -> Iterator[Row]:
    volta = {
        "fp16": {1: 2.0779, 2: 2.65073, 8: 3.2938, 32: 6.58944, 128: 21.2693, 256: 39.7254},
        "fp32": {1: 2.67725, 2: 4.08289, 8: 8.27648, 32: 23.1328, 128: 80.5629, 256: 160.733},
    }
    for precision, times in volta.items():
        for batch, time in times.items():
            yield Row("resnet50", "V100-SXM", "TensorRT 4", precision, batch, 1e-3 * time, "trt4")
    ampere = {"resnet50": 0.45, "resnet101": 0.84, "mobilenet_v1": 0.16, "mobilenet_v2": 0.30, "efficientnet_b0": 0.67}
    for network, time in ampere.items():
        yield Row(network, "A100-SXM-80GB", "TensorRT", "int8", 1, 1e-3 * time, "trt8")
    lone = {
        ("resnet50", "A100-PCIe-40GB"): 0.513149,
        ("resnet50", "T4"): 1.000135,
        ("resnet50", "A30"): 0.513817,
        ("resnet50", "Jetson-AGX-Xavier"): 1.951492,
        ("resnet50", "Jetson-Xavier-NX"): 2.573611,
        ("resnet50", "Jetson-AGX-Orin"): 0.691572,
        ("mobilenet_v1", "Jetson-AGX-Xavier"): 0.573998,
    }
    for (network, device), time in lone.items():
        yield Row(network, device, "TensorRT", "int8", 1, 1e-3 * time, "mlperf")
    yield from _rates("TensorRT", "jetson", "Jetson-Xavier-NX", "vgg19", "int8", {1: 66.43})
    full = {
        ("resnet50", "A100-PCIe-40GB"): 32008.2,
        ("resnet50", "T4"): 6035.57,
        ("resnet50", "A30"): 18072.9,
        ("mobilenet_v1", "T4"): 141807 / 8,
    }
    for (network, device), rate in full.items():
        yield from _rates("TensorRT", "mlperf", device, network, "int8", {256: rate})


def _bert() -> Iterator[Row]:
    tables: dict[tuple[str, str, str, int], dict[int, float]] = {
        ("bert_base", "A100-SXM-40GB", "fp16", 128): {1: 0.67, 8: 1.38, 32: 4.10, 128: 16.14},
        ("bert_base", "A100-SXM-40GB", "int8", 128): {1: 0.58, 8: 0.95, 32: 2.27, 128: 8.18},
        ("bert_large", "A100-SXM-40GB", "fp16", 384): {1: 3.12, 8: 11.53, 32: 43.01, 128: 163.70},
        ("bert_large", "A100-SXM-40GB", "int8", 384): {1: 2.81, 8: 7.16, 32: 23.17, 128: 89.01},
        ("bert_base", "T4", "fp16", 128): {1: 1.95, 8: 9.09, 32: 36.63, 128: 144.20},
        ("bert_base", "T4", "int8", 128): {1: 1.69, 8: 4.66, 32: 18.93, 128: 73.15},
        ("bert_large", "T4", "fp16", 384): {1: 12.45, 8: 92.92, 32: 370.87},
        ("bert_large", "T4", "int8", 384): {1: 7.29, 8: 49.24, 32: 186.60},
    }
    for (network, device, precision, size), times in tables.items():
        for batch, time in times.items():
            yield Row(network, device, "TensorRT", precision, batch, 1e-3 * time, "trt-bert", size=size)


def _phones() -> Iterator[Row]:
    lite = {"fp32": (12.0, 18.0, 26.0, 41.0, 76.0), "int8": (6.5, 9.1, 12.0, 18.0, 30.0)}
    for precision, times in lite.items():
        for number, time in enumerate(times):
            yield Row(f"efficientnet_lite{number}", "Cortex-A76", "TFLite", precision, 1, 1e-3 * time, "lite")
    graphics = {"fp32": (9.0, 12.0, 16.0, 23.0, 36.0), "fp16": (6.0, 8.0, 10.0, 14.0, 21.0)}
    for precision, times in graphics.items():
        for number, time in enumerate(times):
            yield Row(f"efficientnet_lite{number}", "Adreno-640", "TFLite GPU", precision, 1, 1e-3 * time, "lite")
    lone = {"alexnet": 53.052, "googlenet": 111.755, "mnasnet": 35.028, "mobilenet_v1": 43.295, "mobilenet_v2": 30.212}
    for network, time in lone.items():
        yield Row(network, "Cortex-A76", "TFLite", "fp32", 1, 1e-3 * time, "nnmeter", cores=1, clock=2.84e9)


def _boards() -> Iterator[Row]:
    for network, time in {"mobilenet_v1": 75.0, "mobilenet_v2": 44.0}.items():
        yield Row(network, "Raspberry-Pi-4", "XNNPACK", "fp32", 1, 1e-3 * time, "xnnpack")
    wide = {"squeezenet": 46.65, "mobilenet_v1": 61.17, "mobilenet_v2": 61.88, "shufflenet_v2": 24.56, "mnasnet": 51.98}
    wide |= {"efficientnet_b0": 74.19, "googlenet": 114.35, "resnet18": 123.12, "alexnet": 76.40, "vgg16": 547.09}
    wide |= {"resnet50": 262.83}
    narrow = {"squeezenet": 42.59, "mobilenet_v1": 34.37, "googlenet": 101.25, "resnet18": 83.92, "vgg16": 394.23}
    narrow |= {"resnet50": 196.65}
    lone = {"squeezenet": 73.96, "mobilenet_v1": 124.32, "mobilenet_v2": 93.48, "shufflenet_v2": 42.12}
    lone |= {"mnasnet": 83.98, "efficientnet_b0": 129.73, "googlenet": 235.94, "resnet18": 191.10, "alexnet": 139.40}
    lone |= {"vgg16": 1071.85, "resnet50": 534.11}
    for precision, times, cores in (("fp32", wide, None), ("int8", narrow, None), ("fp32", lone, 1)):
        for network, time in times.items():
            yield Row(network, "Raspberry-Pi-4", "ncnn", precision, 1, 1e-3 * time, "ncnn", cores=cores, clock=1.8e9)


def _edge_tpu() -> Iterator[Row]:
    own = {"mobilenet_v1": 2.4, "mobilenet_v2": 2.6, "googlenet": 4.1, "inception_v4": 102.0, "vgg16": 343.0}
    own |= {"vgg19": 357.0}
    for network, time in own.items():
        yield Row(network, "Edge-TPU", "Edge TPU", "int8", 1, 1e-3 * time, "coral")
    for network, time in {"resnet50": 56.0, "resnet152": 151.0}.items():
        yield Row(network, "Edge-TPU", "Edge TPU", "int8", 1, 1e-3 * time, "coral", size=299)


NN_METER = {
    "resnet18": 216.0,
    "alexnet": 96.4,
    "squeezenet_v1": 98.3,
    "googlenet": 165.6,
    "shufflenet_v2": 18.7,
    "mobilenet_v2": 43.8,
    "mnasnet": 45.7,
}
"""Network -> ms on one Cortex-A76 core by nn-Meter 1.0's predictor, which is within 10 % of most measurements."""

FITTED = {
    "pytorch": (
        ("resnet18", "resnet50", "efficientnet_b0", "mobilenet_v2", "vgg16"),
        ("V100-SXM", "A100-SXM-80GB", "RTX-3090"),
    ),
    "tensorrt": (
        ("resnet50", "mobilenet_v1", "efficientnet_b0", "bert_base"),
        ("A100-SXM-80GB", "A100-SXM-40GB", "A100-PCIe-40GB", "T4"),
    ),
    "tflite-gpu": (("efficientnet_lite0", "efficientnet_lite2", "efficientnet_lite4"), ("Adreno-640",)),
    "tflite": (("efficientnet_lite0", "efficientnet_lite2", "efficientnet_lite4"), ("Cortex-A76",)),
    "ncnn": (("squeezenet", "mobilenet_v1", "resnet18", "googlenet", "efficientnet_b0"), ("Raspberry-Pi-4",)),
    "edge-tpu": (("googlenet", "inception_v4", "resnet152", "mobilenet_v2"), ("Edge-TPU",)),
}
"""Constants -> networks and devices whose inference they were fitted to; all other rows judge, training among them."""


def is_fitted(row: Row) -> bool:
    """Whether its engine's constants were fitted to a row."""
    networks, devices = FITTED[ENGINES[row.engine][1]]
    return row.network in networks and row.device in devices and not row.training
