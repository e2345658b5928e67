"""Reading pictures: every format and mode a person has, compared with Pillow's own operations and hand values."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import ImageOps

from backbone.contracts import Box
from backbone.errors import DataError, FoveaError
from backbone.image_files import count_pages, decode
from backbone.images import ImageLimits, SourceImage, from_any, read_image

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (24, 40, 3), dtype=np.uint8)


def encoded(image: Pillow.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "options"),
    [("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("BMP", {})],
)
def test_lossless_formats_keep_every_pixel(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    data = encoded(Pillow.fromarray(COLOURS), kind, **options)
    path = tmp_path / "picture"
    path.write_bytes(data)
    for source in (data, path):
        image = read_image(source)
        assert image.size == (40, 24)
        assert image.notes == ()
        np.testing.assert_array_equal(image.array, COLOURS)


def test_jpeg_and_gif_are_read() -> None:
    flat = Pillow.new("RGB", (33, 17), (200, 40, 40))
    for kind in ("JPEG", "GIF"):
        assert np.abs(read_image(encoded(flat, kind)).array.astype(int) - (200, 40, 40)).max() <= 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_once_as_pillow_does(orientation: int) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    data = encoded(Pillow.fromarray(COLOURS), "PNG", exif=exif)
    image = read_image(data)
    np.testing.assert_array_equal(image.array, np.asarray(ImageOps.exif_transpose(Pillow.open(io.BytesIO(data)))))
    assert any("EXIF" in note for note in image.notes) == (orientation != 1)


def test_transparency_goes_on_white() -> None:
    rgba = np.zeros((2, 2, 4), np.uint8)
    rgba[0, 0], rgba[0, 1], rgba[1, 0], rgba[1, 1] = (9, 8, 7, 255), (0, 0, 0, 0), (0, 0, 0, 128), (255, 101, 100, 100)
    image = read_image(encoded(Pillow.fromarray(rgba), "PNG"))
    assert image.array.tolist() == [[[9, 8, 7], [255, 255, 255]], [[127, 127, 127], [255, 195, 194]]]
    assert image.notes == ("transparent parts pasted on white",)
    rgba[:, :, 3] = 255
    assert read_image(encoded(Pillow.fromarray(rgba), "PNG")).notes == ()


@pytest.mark.parametrize("mode", ["P", "RGB", "L"])
def test_colour_key_transparency_goes_on_white(mode: str) -> None:
    picture = Pillow.new(mode, (4, 4), 0 if mode != "RGB" else (0, 0, 0))
    key: Any = 0 if mode != "RGB" else (0, 0, 0)
    assert (read_image(encoded(picture, "PNG", transparency=key)).array == 255).all()


def test_palette_grey_bilevel_and_grey_alpha() -> None:
    grey = Pillow.fromarray(COLOURS[:, :, 0])
    for picture in (grey, grey.convert("1"), Pillow.fromarray(COLOURS).quantize(16), grey.convert("LA")):
        np.testing.assert_array_equal(read_image(encoded(picture, "PNG")).array, np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_is_scaled_not_clipped(kind: str) -> None:
    values = np.array([[0, 128, 129, 257, 32768, 65535, 65406, 4095]], np.uint16)
    image = read_image(encoded(Pillow.fromarray(values), kind))
    assert image.array[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255, 254, 16]
    assert "16-bit" in image.notes[0]


def test_16_bit_big_endian_tiff_and_float_tiff() -> None:
    values = np.array([[0, 257, 65535]], np.uint16)
    swapped = Pillow.frombytes("I;16B", (3, 1), values.astype(">u2").tobytes())
    assert read_image(encoded(swapped, "TIFF")).array[0, :, 1].tolist() == [0, 1, 255]
    unit = Pillow.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    assert read_image(encoded(unit, "TIFF")).array[0, :, 2].tolist() == [0, 128, 255]
    wide = Pillow.fromarray(np.array([[-10.0, 0.0, 10.0]], np.float32))
    assert read_image(encoded(wide, "TIFF")).array[0, :, 2].tolist() == [0, 128, 255]
    broken = Pillow.fromarray(np.array([[0.0, np.nan, 1.0]], np.float32))
    with pytest.raises(DataError, match="NaN"):
        read_image(encoded(broken, "TIFF"))


def test_16_bit_colour_says_so() -> None:
    import cv2

    values = (np.arange(12, dtype=np.uint16) * 5000).reshape(2, 2, 3)
    done, data = cv2.imencode(".png", values[:, :, ::-1])
    assert done
    image = read_image(data.tobytes())
    assert np.abs(image.array.astype(int) - np.rint(values / 257.0)).max() <= 1
    assert image.notes == ("16 bits a channel scaled to 8",)


def test_cmyk_is_converted_and_said() -> None:
    image = read_image(encoded(Pillow.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))
    assert np.abs(image.array.astype(int) - (255, 0, 0)).max() <= 3
    assert "CMYK" in image.notes[0]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF", "PNG"])
def test_animation_gives_the_first_frame_and_says_so(kind: str) -> None:
    frames = [Pillow.new("RGB", (8, 6), colour) for colour in ("red", "blue", "lime")]
    image = read_image(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert np.abs(image.array.astype(int) - (255, 0, 0)).max() <= 4
    assert image.notes == ("first of 3 frames",)


def test_strips_cover_a_picture_wider_and_taller_than_one_strip() -> None:
    tall = np.repeat(np.arange(3001, dtype=np.uint32)[:, None] % 251, 1500, axis=1).astype(np.uint8)
    np.testing.assert_array_equal(read_image(encoded(Pillow.fromarray(tall), "PNG")).array[:, :, 0], tall)


HOSTILE = {
    "empty": (b"", "empty"),
    "text": (b"hello, I am a text file\n" * 20, "not a readable picture"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00.", "not a readable picture"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a readable picture"),
    "cut png": (encoded(Pillow.fromarray(COLOURS), "PNG")[:-900], "truncated"),
    "cut jpeg": (encoded(Pillow.fromarray(COLOURS), "JPEG")[:-300], "truncated"),
    "cut tiff": (encoded(Pillow.fromarray(COLOURS), "TIFF")[:300], "picture"),
    "cut bmp": (encoded(Pillow.fromarray(COLOURS), "BMP")[:200], "truncated"),
    "cut gif": (encoded(Pillow.fromarray(COLOURS), "GIF")[:100], "picture"),
    "cut webp": (encoded(Pillow.fromarray(COLOURS), "WEBP")[:60], "picture"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_a_typed_error_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    data, words = HOSTILE[name]
    path = tmp_path / "bad.jpg"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(DataError, match=words) as caught:
            read_image(source)
        assert ";" in str(caught.value)  # what is wrong; what to do
    with pytest.raises(DataError, match=r"bad\.jpg"):
        read_image(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(DataError, match="not a file"):
        read_image(tmp_path)


def test_limits_are_checked_before_decoding() -> None:
    bomb = bytearray(encoded(Pillow.new("L", (10, 10)), "BMP"))
    bomb[18:26] = (40_000).to_bytes(4, "little") * 2  # the header claims 1.6 gigapixels
    with pytest.raises(DataError, match=r"40000 x 40000 is 1600\.0 megapixels, over the limit of 200\.0"):
        read_image(bytes(bomb))
    data = encoded(Pillow.fromarray(COLOURS), "PNG")
    with pytest.raises(DataError, match="over the limit"):
        read_image(data, limits=ImageLimits(max_pixels=959))
    assert read_image(data, limits=ImageLimits(max_pixels=960)).size == (40, 24)
    with pytest.raises(DataError, match="exceed the limit"):
        read_image(data, limits=ImageLimits(max_bytes=len(data) - 1))
    assert Pillow.MAX_IMAGE_PIXELS is not None  # other users of Pillow keep their own limit


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]), st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_never_escapes_as_an_untyped_error(kind: str, where: int, value: int) -> None:
    data = bytearray(encoded(Pillow.fromarray(COLOURS), kind))
    data[where % len(data)] = value
    try:
        image = read_image(bytes(data), limits=ImageLimits(max_pixels=1_000_000))
    except FoveaError:
        return
    assert image.array.dtype == np.uint8


def test_resized_weighs_every_pixel_equally() -> None:
    checker = np.indices((64, 64)).sum(0) % 2 * 255
    image = SourceImage.from_array(np.repeat(checker[:, :, None], 3, 2).astype(np.uint8))
    assert set(np.unique(image.resized(16))) <= {127, 128}  # no aliasing: each result is a mean of whole squares
    corner = np.zeros((64, 64, 3), np.uint8)
    corner[0, 0] = 255
    assert SourceImage(corner).resized(16)[0, 0].tolist() == [16, 16, 16]  # 255 / 16
    assert image.resized(None) is image.array
    assert image.resized(64) is image.array
    assert image.resized(500) is image.array


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 400))
def test_resized_obeys_the_longest_side(width: int, height: int, longest: int) -> None:
    result = SourceImage(np.zeros((height, width, 3), np.uint8)).resized(longest)
    assert max(result.shape[:2]) == min(longest, max(width, height))
    assert min(result.shape[:2]) >= 1


def test_crop_takes_original_pixels_exactly() -> None:
    image = SourceImage(COLOURS)
    part = image.crop(Box(5, 3, 25, 13), 20, 10)
    np.testing.assert_array_equal(part, COLOURS[3:13, 5:25])
    np.testing.assert_array_equal(image.crop(Box(5.9, 3.1, 24.1, 12.9), 20, 10), part)  # rounded outwards
    part[:] = 0
    assert image.array[3:13, 5:25].any()  # a copy, not a view
    assert image.crop(Box(39.2, 23.5, 60, 50), 32, 16).shape == (16, 32, 3)  # clipped; enlarged
    np.testing.assert_array_equal(image.crop(Box(0, 0, 40, 24), 20, 12), image.resized(20))
    with pytest.raises(DataError, match="no pixel"):
        image.crop(Box(40, 0, 50, 10), 8, 8)


RED_RGB = np.zeros((4, 6, 3), np.uint8)
RED_RGB[:, :] = (200, 10, 30)


@pytest.mark.parametrize(
    ("array", "layout", "channels"),
    [
        (RED_RGB, "hwc", "rgb"),
        (RED_RGB[:, :, ::-1], "hwc", "bgr"),
        (RED_RGB.transpose(2, 0, 1), "chw", "rgb"),
        (RED_RGB.transpose(2, 0, 1)[::-1], "chw", "bgr"),
        (RED_RGB.astype(np.float32) / 255, "hwc", "rgb"),
        (RED_RGB.astype(np.uint16) * 257, "hwc", "rgb"),
        (np.dstack([RED_RGB, np.full((4, 6), 255, np.uint8)]), "hwc", "rgb"),
        (np.dstack([RED_RGB[:, :, ::-1], np.full((4, 6), 255, np.uint8)]), "hwc", "bgr"),
        (Pillow.fromarray(RED_RGB), "hwc", "rgb"),
    ],
)
def test_every_declared_layout_gives_the_same_pixels(array: Any, layout: Any, channels: Any) -> None:
    result = from_any(array, layout=layout, channels=channels)
    np.testing.assert_array_equal(result, RED_RGB)
    assert result.flags.c_contiguous


def test_a_three_pixel_high_picture_is_read_as_declared() -> None:
    cube = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    np.testing.assert_array_equal(from_any(cube, layout="hwc", channels="rgb"), cube)
    np.testing.assert_array_equal(from_any(cube, layout="chw", channels="rgb"), cube.transpose(1, 2, 0))
    grey = from_any(cube[0], layout="chw", channels="rgb")
    np.testing.assert_array_equal(grey, np.repeat(cube[0][:, :, None], 3, 2))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((3, 24, 40), np.uint8), "check the layout"),
        (np.zeros((24, 40, 2), np.uint8), "check the layout"),
        (np.zeros((1, 24, 40, 3), np.uint8), "check the layout"),
        (np.zeros((0, 40, 3), np.uint8), "no pixels"),
        (np.full((4, 4, 3), 255.0), "must lie in 0 to 1"),
        (np.full((4, 4, 3), np.nan), "must lie in 0 to 1"),
        (np.zeros((4, 4, 3), np.int64), "convert it first"),
        (np.zeros((4, 4, 3), bool), "convert it first"),
    ],
)
def test_an_array_in_another_layout_is_refused(array: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        from_any(array, layout="hwc", channels="rgb")


def test_make_example_is_valid() -> None:
    assert SourceImage.make_example().size == (64, 48)


def test_the_pages_of_a_tiff_are_counted_and_chosen() -> None:
    pages = [Pillow.fromarray(np.full((5 + i, 7, 3), 40 * i, np.uint8)) for i in range(3)]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert count_pages(data, ImageLimits()) == 3
    for index, page in enumerate(pages):
        array, notes = decode(data, ImageLimits(), frame=index)
        np.testing.assert_array_equal(array, np.asarray(page))
        assert notes == ()
    assert decode(data, ImageLimits())[1] == ("first of 3 frames",)
    with pytest.raises(DataError):
        decode(data, ImageLimits(), frame=3)
    with pytest.raises(DataError, match="over the limit"):
        decode(data, ImageLimits(max_pixels=40), frame=1)
    assert decode(data, ImageLimits(max_pixels=40), frame=0)[0].shape == (5, 7, 3)


def test_other_pictures_have_one_page_and_are_refused_unread() -> None:
    frames = [Pillow.new("RGB", (4, 4), (i * 90, 0, 0)) for i in range(3)]
    assert count_pages(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), ImageLimits()) == 1
    assert count_pages(encoded(frames[0], "PNG"), ImageLimits()) == 1
    with pytest.raises(DataError, match="over the limit"):
        count_pages(encoded(frames[0], "PNG"), ImageLimits(max_pixels=15))
    for broken in (b"", b"no picture"):
        with pytest.raises(DataError):
            count_pages(broken, ImageLimits())
