"""The wire's codec: round trips, an oracle, and frames made to do harm."""

import contextlib
import pickle
import tracemalloc
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from backbone.contracts import ActionSpec
from backbone.errors import DataError
from backbone.serving.codec import DTYPES, array_from, pack, unpack
from backbone.serving.errors import WireError
from backbone.serving.scan import WireLimits, scan
from backbone.serving.spec import spec_from_plain, spec_to_plain

NUMBERS = st.sampled_from([np.dtype(t) for t in ("?", "i1", "<i2", ">i4", "<i8", "u1", "<u4", "<f2", ">f4", "<f8")])
ARRAYS = NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _openpi_array(data: object, dtype: object, shape: object) -> bytes:
    return msgpack.packb({b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape})


def _image(form: str, data: bytes, shape: list[int]) -> bytes:
    return msgpack.packb({"__image__": True, "format": form, "data": data, "shape": shape, "dtype": "|u1"})


@pytest.mark.parametrize("dialect", ["openpi", "vla-eval"])
@given(array=ARRAYS)
def test_arrays_come_back_equal(dialect, array):
    back = unpack(pack({"x": array}, dialect), dialect)["x"]
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=") or back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("dialect", ["openpi", "vla-eval"])
@given(value=PLAIN)
def test_plain_values_come_back_equal(dialect, value):
    assert unpack(pack(value, dialect), dialect) == value


@pytest.mark.parametrize("dialect", ["openpi", "vla-eval"])
@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"\x82\xa4seed\x01\xa4seed\x02", "the key 'seed' comes 2 times in one map"),
        (b"\x82\xa4seed\x01\xa4seed\x01", "'seed' comes 2 times"),  # also where both say the same
        (b"\x81\xa1a\x83\xa1x\x01\xa1y\x02\xa1x\x03", "the key 'x' comes 2 times"),
        (b"\x82\xc4\x04data\x01\xc4\x04data\x02", "the key 'data' comes 2 times"),
    ],
)
def test_a_key_that_comes_twice_is_refused(dialect, frame, said):
    assert isinstance(msgpack.unpackb(frame), dict)  # msgpack itself keeps the last
    with pytest.raises(WireError, match=said):
        unpack(frame, dialect)


def test_text_and_bytes_are_different_keys():
    assert unpack(b"\x82\xa1x\x01\xc4\x01x\x02") == {"x": 1, b"x": 2}


@given(value=PLAIN)
def test_what_msgpack_writes_passes_the_scan(value):
    scan(msgpack.packb(value), WireLimits())


@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_value_or_our_error(data):
    for dialect in ("openpi", "vla-eval"):
        said = ""
        try:
            unpack(data, dialect)
        except WireError as error:
            said = str(error)
        assert len(said) < 400


@given(value=PLAIN, cut=st.integers(1, 30))
def test_every_truncation_is_refused(value, cut):
    frame = pack(value)
    if cut < len(frame):
        with pytest.raises(WireError):
            unpack(frame[:-cut])


@given(value=PLAIN, flips=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=5))
def test_flipped_bytes_give_a_value_or_our_error(value, flips):
    frame = bytearray(pack({"a": value, "x": np.arange(6, dtype=np.float32).reshape(2, 3)}))
    for position, byte in flips:
        frame[position % len(frame)] = byte
    with contextlib.suppress(WireError):
        unpack(bytes(frame))


@pytest.mark.parametrize(
    "dtype",
    ["O", "|O", "V8", "|V8", "<U4", "S3", "c8", "<c16", "M8[s]", "i4,i4", "f16", "<f16", "", "x" * 999, 7, None],
)
def test_types_that_are_no_plain_numbers_are_refused(dtype):
    with pytest.raises(WireError, match="refused"):
        unpack(_openpi_array(b"\0" * 16, dtype, [2]))


@pytest.mark.parametrize(
    "shape",
    [
        [-1],
        [-2, -2],
        [2**62, 4],
        [2**63 - 1] * 8,
        [1] * 9,
        [2.0],
        ["2"],
        [True, 4],
        None,
        4,
        {"a": 1},
        [[4]],
        [0, 2**62],
    ],
)
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(WireError):
        unpack(_openpi_array(b"\0" * 4, "|u1", shape))


def test_length_and_shape_must_agree():
    for size in (0, 11, 13, 24):
        with pytest.raises(WireError, match=f"needs 12 bytes, got {size}"):
            unpack(_openpi_array(b"\0" * size, "<f4", [3]))
    with pytest.raises(WireError, match="must be bytes"):
        unpack(_openpi_array("text", "<f4", [1]))


def test_an_empty_array_with_giant_sizes_takes_no_memory():
    with contextlib.suppress(WireError):
        assert array_from(b"", "<f8", [0, 2**40]).size == 0


def test_deep_nesting_is_refused_before_anything_is_built():
    for depth in (17, 5000, 2_000_000):
        with pytest.raises(WireError, match="deeper than 16"):
            unpack(b"\x91" * depth + b"\x00")
    assert unpack(b"\x91" * 15 + b"\x00")


def test_a_bomb_of_empty_lists_stays_small():
    frame = b"\xdd" + (4_000_000).to_bytes(4, "big") + b"\x90" * 4_000_000
    tracemalloc.start()
    with pytest.raises(WireError, match="more than 20000 values"):
        unpack(frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000  # the lists alone would be 256 MB
    nested = b"\xdc\x03\xe8" + (b"\xdc\x03\xe8" + b"\x90" * 1000) * 1000  # a thousand lists of a thousand
    with pytest.raises(WireError, match="more than 20000 values"):
        unpack(nested)


def test_claimed_lengths_beyond_the_frame_are_refused():
    for frame in (b"\xc6\xff\xff\xff\xff", b"\xdb\x7f\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc4", b"\xda\x00", b""):
        with pytest.raises(WireError):
            unpack(frame)


def test_extension_types_two_values_and_list_keys_are_refused():
    for frame in (msgpack.packb(msgpack.ExtType(5, b"x")), b"\xd6\xff\0\0\0\0", b"\xc1", b"\x00\x00", b"\x81\x90\x00"):
        with pytest.raises(WireError):
            unpack(frame)
    with pytest.raises(WireError, match="not a msgpack message"):
        unpack(msgpack.packb({5: 1}))


def test_pickles_are_never_opened(tmp_path: Path):
    sentinel = tmp_path / "opened"

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (sentinel,))

    bomb = pickle.dumps(Bomb())
    for dialect in ("openpi", "vla-eval"):
        with pytest.raises(WireError):
            unpack(bomb, dialect)
    with pytest.raises(WireError):
        unpack(_openpi_array(bomb, "|O", [1]))
    assert unpack(pack({"x": bomb})) == {"x": bomb}  # bytes stay bytes
    assert not sentinel.exists()


def test_scalars_of_openpi():
    frame = pack({"a": np.float32(1.5), "b": np.int16(-3), "c": np.bool_(True), "d": np.float64(0.25)})
    back = unpack(frame)
    assert (back["a"], back["b"], back["c"], back["d"]) == (1.5, -3, True, 0.25)
    assert back["a"].dtype == np.float32
    for value, dtype in ((300, "|u1"), ("x", "<f4"), (1, "O"), ([1], "<i4"), (2**63, "<i4")):
        with pytest.raises(WireError):
            unpack(msgpack.packb({b"__npgeneric__": True, b"data": value, b"dtype": dtype}))


def test_openpis_own_form_byte_for_byte():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    ours = msgpack.unpackb(pack({"x": array}), strict_map_key=False)["x"]
    assert ours == {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": "<f4", b"shape": [2, 3]}


@pytest.mark.parametrize("dialect", ["openpi", "vla-eval"])
def test_an_arrays_place_in_memory_does_not_show_in_the_frame(dialect):
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    wide = np.zeros((2, 3, 8), np.int16)
    wide[:, :, ::2] = array
    read_only = array.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(array), wide[:, :, ::2], read_only, np.ma.masked_array(array)):
        assert pack({"x": same}, dialect) == pack({"x": array}, dialect)


def test_the_other_protocols_arrays_are_recognised():
    with pytest.raises(WireError, match="/vla-eval"):
        unpack(pack({"x": np.zeros(2)}, "vla-eval"), "openpi")
    with pytest.raises(WireError, match="path /"):
        unpack(pack({"x": np.zeros(2)}, "openpi"), "vla-eval")


def test_pictures_of_vla_eval():
    import io

    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    for form in ("png", "jpeg"):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, form.upper(), quality=95)
        back = unpack(_image(form, stream.getvalue(), [24, 32, 3]), "vla-eval")
        assert back.shape == (24, 32, 3)
        assert np.array_equal(back, pixels) == (form == "png")
    assert np.array_equal(unpack(_image("raw", pixels.tobytes(), [24, 32, 3]), "vla-eval"), pixels)
    for form, data, shape in (
        ("png", stream.getvalue()[:50], [24, 32, 3]),
        ("gif", stream.getvalue(), [24, 32, 3]),
        ("jpeg", stream.getvalue(), [24, 32, 4]),
        ("raw", b"123", [24, 32, 3]),
        ("png", b"", [1, 1, 3]),
    ):
        with pytest.raises(WireError):
            unpack(_image(form, data, shape), "vla-eval")


def test_a_picture_bomb_is_refused_unopened():
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (9000, 9000)).save(stream, "PNG")  # 81 megapixels in 90 kB
    with pytest.raises(WireError, match="megapixels"):
        unpack(_image("png", stream.getvalue(), [9000, 9000, 1]), "vla-eval")
    many = msgpack.packb([msgpack.unpackb(_image("raw", b"\0" * 3, [1, 1, 3])) for _ in range(17)])
    with pytest.raises(WireError, match="more than 16 pictures"):
        unpack(many, "vla-eval")


@pytest.mark.parametrize("value", [np.array([object()]), np.zeros(2, "c16"), np.array(["x"]), {1, 2}, object(), 2**70])
def test_what_cannot_be_sent_is_named(value):
    for dialect in ("openpi", "vla-eval"):
        with pytest.raises(WireError, match="sent"):
            pack({"x": value}, dialect)


def test_every_spelling_means_what_numpy_says():
    for spelling, dtype in DTYPES.items():
        assert np.dtype(spelling) == dtype or spelling[1:] == "b1"


def test_specs_survive_the_wire():
    for spec in (ActionSpec.make_example(), ActionSpec.discrete(("stop", "go"), 2.0)):
        assert spec_from_plain(unpack(pack(spec_to_plain(spec))), "here") == spec
    good = spec_to_plain(ActionSpec.make_example())
    for change in (
        {"low": ["a", "b"]},
        {"names": "xy"},
        {"kind": "odd"},
        {"extra": 1},
        {"low": [2, 2]},
        {"control_hz": True},
    ):
        with pytest.raises(DataError, match="here"):
            spec_from_plain({**good, **change}, "here")
    with pytest.raises(DataError, match="missing"):
        spec_from_plain({"names": ["a"]}, "here")
