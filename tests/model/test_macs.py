from __future__ import annotations

from pathlib import Path

import pytest

from scripts.zoo import ModelBuilder
from tests.conftest import shared_models
from tests.memory.one_operator import MODELS, Maker
from tflite_fuse.model import load_model
from tflite_fuse.model.macs import operator_macs

PUBLISHED_MILLIONS = {
    "tflm_person_detect_int8": 7.16,
    "mlperf_tiny_vww96_int8": 7.49,
    "mlperf_tiny_dscnn_kws_int8": 2.66,
    "mlperf_tiny_resnet8_int8": 12.50,
    "mcunet_vww1_float_io_int8": 11.58,
    "mcunet_in3_int8": 81.8,
}


@shared_models(*PUBLISHED_MILLIONS)
def test_known_models(path: Path) -> None:
    macs = sum(operator_macs(load_model(path))) / 1e6
    assert macs == pytest.approx(PUBLISHED_MILLIONS[path.stem], abs=0.05 if macs > 50 else 0.005)


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        ("CONV_2D", 4 * 4 * 6 * 3 * 3 * 5),
        ("DEPTHWISE_CONV_2D", 4 * 4 * 5 * 3 * 3),
        ("TRANSPOSE_CONV", 8 * 8 * (3 * 3 * 5 * 6 // 4)),
        ("FULLY_CONNECTED", 9 * 12),
        ("BATCH_MATMUL", 3 * 5 * 4),
        ("BATCH_MATMUL, left transposed", 3 * 5 * 4),
        ("SVDF", 8 * 7 + 8 * 10),
        ("ADD", 0),
        ("AVERAGE_POOL_2D", 0),
        ("MEAN", 0),
    ],
)
def test_each_kind(name: str, macs: int) -> None:
    assert operator_macs(MODELS[name]) == (macs,)


@pytest.mark.parametrize(("weights", "macs"), [(1, 0), (2, 4 * 4 * 5 * 9)])
def test_a_depthwise_convolution_of_ones_only_adds(weights: int, macs: int) -> None:
    maker = Maker()
    x, filters, y = (
        maker.data((1, 4, 4, 5)),
        maker.constant((1, 3, 3, 5), values=[weights] * 45),
        maker.data((1, 4, 4, 5)),
    )
    assert operator_macs(maker.model("DEPTHWISE_CONV_2D", [x, filters], [y])) == (macs,)
    dense = maker.constant((5, 3, 3, 5), values=[weights] * 225)
    assert operator_macs(maker.model("CONV_2D", [x, dense], [y])) == (4 * 4 * 5 * 45,)


def test_one_figure_per_operator() -> None:
    builder = ModelBuilder(seed=0)
    x = builder.input((1, 8, 8, 3))
    y = builder.conv(x, 4, kernel=3, stride=2)
    z = builder.add(builder.conv(y, 4), y)
    model = builder.build([builder.fully_connected(z, 10)])
    assert operator_macs(model) == (4 * 4 * 4 * 27, 4 * 4 * 4 * 4, 0, 640)


def test_lstm_multiplies_every_weight_in_every_step() -> None:
    maker = Maker()
    inputs = [maker.data((2, 5, 3))]
    inputs += [maker.constant((4, 3)) for _ in range(4)] + [maker.constant((4, 4)) for _ in range(4)]
    inputs += [-1] * 3 + [maker.constant((4,)) for _ in range(4)] + [-1, -1]
    model = maker.model("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [maker.data((2, 5, 4))])
    assert operator_macs(model) == (2 * 5 * 4 * (12 + 16),)


def test_custom_operators_count_nothing() -> None:
    maker = Maker()
    model = maker.model("BLOCK", [maker.data((4,))], [maker.data((4,))])
    assert operator_macs(model) == (0,)
