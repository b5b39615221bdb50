"""Build sensing/console/{glyphs,wide}.npz, the bitmap fonts of text consoles, from installed Debian packages.

    python tools/build_glyphs.py [FOLDER]

Reads only files of the packages seabios, console-setup-linux, unifont, ovmf and fonts-dejavu-core; NOTICE names
their authors and licences. The letters of the last are drawn by FreeType at the size of the graphical Debian
installer's titles, into sensing/title.npz. The kernel's own fonts are not read: their licence does not fit.
"""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

FOLDER = Path(__file__).parents[1] / "packages/host/src/reflexarc/sensing/console"
TITLE_FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf")
TITLE_SIZE = 12  # pixels an em: nine points at 96 dots an inch
TITLE_PEN = 2
LAST_CODE = 0x2FFF
CONSOLE_FONTS = Path("/usr/share/consolefonts")
# The code sets of console-setup, the richest first: each adds what those before it lack.
CODE_SETS = ("Uni2", "Lat15", "Uni3", "Uni1", "Lat2", "Lat7", "FullCyrSlav", "FullGreek", "Vietnamese")
CONTROL_PICTURES = "\x00☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼"
FEW = 5  # glyphs of ASCII in which the code sets of one design may differ
# First glyph rows of a capital A in the ROM's three fonts; the font starts 65 glyphs before.
ROM_LETTER_A = {
    16: bytes.fromhex("000010386cc6c6fec6c6c6c600000000"),
    14: bytes.fromhex("000010386cc6c6fec6c6c6000000"),
    8: bytes.fromhex("3078ccccfccccc00"),
}

Glyphs = dict[int, bytes]


def package_file(path: Path, package: str) -> bytes:
    """Read a file of a Debian package; end the program with the package's name where it is missing."""
    if not path.is_file():
        sys.exit(f"{path} is missing: apt-get install {package}")
    return path.read_bytes()


def rom_fonts() -> Iterator[tuple[str, Glyphs]]:
    """The code page 437 fonts of the VGA ROM: 8x16, 8x14, 8x8."""
    rom = package_file(Path("/usr/share/seabios/vgabios-stdvga.bin"), "seabios")
    page = CONTROL_PICTURES + bytes(range(32, 127)).decode() + "⌂" + bytes(range(128, 256)).decode("cp437")
    for height, letter in ROM_LETTER_A.items():
        at = rom.find(letter)
        if at < 0:
            sys.exit(f"no 8x{height} font in the VGA ROM of the package seabios")
        start = at - 65 * height
        cells = [rom[start + i * height : start + (i + 1) * height] for i in range(256)]
        yield f"8x{height}-rom", {ord(c): cell for c, cell in zip(page, cells, strict=True) if c != "\x00"}


def psf(data: bytes) -> Glyphs:
    """Decode a console font, version 1 or 2. Source: kbd documentation, "PSF font file format"."""
    if data[:2] == b"\x36\x04":
        count, height = (512 if data[2] & 1 else 256), data[3]
        size, start = height, 4
        words = struct.unpack(f"<{(len(data) - start - count * size) // 2}H", data[start + count * size :])
        table = "".join(map(chr, words)).split("\uffff")
        names = [entry.split("\ufffe")[0] for entry in table]
    else:
        start, _, count, size = struct.unpack_from("<4I", data, 8)
        names = [
            entry.split(b"\xfe")[0].decode(errors="ignore")
            for entry in data[start + count * size :].split(b"\xff")
        ]
    glyphs: Glyphs = {}
    for index in range(count):
        for character in names[index]:
            glyphs.setdefault(ord(character), data[start + index * size : start + (index + 1) * size])
    return glyphs


def console_fonts(
    name: str, face: str, code_sets: tuple[str, ...] = CODE_SETS
) -> Iterator[tuple[str, Glyphs]]:
    """One face of console-setup, its code sets merged.

    A code set that draws ASCII in another way than those before it is a font of its own.
    """
    kinds: list[Glyphs] = []
    for code_set in code_sets:
        path = CONSOLE_FONTS / f"{code_set}-{face}.psf.gz"
        if code_set != code_sets[0] and not path.is_file():
            continue
        glyphs = psf(gzip.decompress(package_file(path, "console-setup-linux")))
        alike = next((kind for kind in kinds if ascii_alike(kind, glyphs)), None)
        if alike is None:
            kinds.append(dict(glyphs))
            continue
        for code, cell in glyphs.items():
            alike.setdefault(code, cell)
    for number, kind in enumerate(kinds):
        yield (f"{name}{number + 1}" if number else name), kind


def ascii_alike(one: Glyphs, other: Glyphs) -> bool:
    """Tell whether two fonts draw nearly all of ASCII alike."""
    return sum(one.get(code) != other.get(code) for code in range(0x21, 0x7F)) <= FEW


def unifont(digits: int) -> Glyphs:
    """The glyphs of Unifont with so many hexadecimal digits; GRUB and debian-installer's bterm draw with it.

    32 digits make a glyph of one cell, 64 one of two.
    """
    text = package_file(Path("/usr/share/unifont/unifont.hex"), "unifont").decode()
    pairs = (line.split(":") for line in text.splitlines())
    return {int(code, 16): bytes.fromhex(cell) for code, cell in pairs if len(cell) == digits}


def firmware_volumes(image: bytes) -> Iterator[bytes]:
    """Every LZMA stream found in a firmware image, unpacked."""
    at = -1
    while (at := image.find(b"\x5d\x00\x00", at + 1)) >= 0:
        try:
            yield lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=1 << 28).decompress(image[at:])
        except lzma.LZMAError:
            continue


def efi_font() -> Glyphs:
    """The narrow 8x19 glyphs of EDK II. Source: UEFI specification, EFI_NARROW_GLYPH."""
    image = package_file(Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), "ovmf")
    glyph = struct.Struct("<HB19s")
    for volume in firmware_volumes(image):
        at = -1
        while (at := volume.find(b"\x41\x00\x00", at + 1)) >= 0:
            if volume[at + 22 : at + 25] == b"\x42\x00\x00" and volume[at + 44 : at + 47] == b"\x43\x00\x00":
                return narrow_glyphs(volume, at - (0x41 - 0x20) * glyph.size, glyph)
    sys.exit("no narrow glyphs in the firmware of the package ovmf")


def narrow_glyphs(volume: bytes, start: int, glyph: struct.Struct) -> Glyphs:
    """Walk the table of narrow glyphs from its first entry to the one of code 0."""
    glyphs: Glyphs = {}
    for code, _, cell in glyph.iter_unpack(
        volume[start : start + (len(volume) - start) // glyph.size * glyph.size]
    ):
        if code == 0:
            break
        glyphs[code] = cell
    return glyphs


def fonts() -> Iterator[tuple[str, Glyphs]]:
    """All fonts, those of one cell size in the order in which they are preferred."""
    yield from rom_fonts()
    for name, face in (
        ("8x16-vga", "VGA16"),
        ("8x16-fixed", "Fixed16"),
        ("8x16-light", "Terminus16"),
        ("8x16-bold", "TerminusBold16"),
        ("8x16-boldvga", "TerminusBoldVGA16"),
    ):
        yield from console_fonts(name, face)
    # Public domain, and the one font here whose f and v are those of the kernel's framebuffer console.
    yield from console_fonts("8x16-classic", "GohaClassic16", ("Ethiopian",))
    yield "8x16-uni", unifont(32)
    yield "8x19-efi", efi_font()
    for name, face in (
        ("8x14-vga", "VGA14"),
        ("8x14-fixed", "Fixed14"),
        ("8x14-light", "Terminus14"),
        ("8x8-vga", "VGA8"),
        ("8x18-fixed", "Fixed18"),
        ("16x32-bold", "TerminusBold32x16"),
        ("16x32-light", "Terminus32x16"),
        ("16x32-vga", "VGA32x16"),
    ):
        yield from console_fonts(name, face)


def wanted(code: int) -> bool:
    """Latin, Greek, Cyrillic and symbols; primes look like the apostrophes of other fonts and stay out."""
    return 0x20 < code < 0x530 or (0x1E00 <= code <= LAST_CODE and not 0x2032 <= code <= 0x2037)


def wanted_of_unifont(code: int) -> bool:
    """What is wanted of every font, and the other alphabets as terminals draw them.

    Marks that combine with a letter stay out: alone some of them look like a cursor.
    """
    alphabets = 0x530 <= code < 0x1E00 or 0xFB1D <= code <= 0xFDFF or 0xFE70 <= code <= 0xFEFC
    alone = unicodedata.category(chr(code)) != "Mn"
    return wanted(code) or ((alphabets or 0xFF61 <= code <= 0xFF9F) and alone)


def wanted_wide(code: int) -> bool:
    """Kana, Bopomofo, unified Han, Hangul, and the forms as wide as these."""
    return (
        0x3000 < code < 0x3130
        or 0x4E00 <= code < 0xA000
        or 0xAC00 <= code <= 0xD7A3
        or 0xFF00 < code <= 0xFF60
    )


def write(output: Path, found: Iterator[tuple[str, Glyphs]], wanted: Callable[[str, int], bool]) -> None:
    """Write the wanted glyphs of some fonts."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, glyphs in found:
        codes = sorted(code for code in glyphs if wanted(name, code) and any(glyphs[code]))
        cells = b"".join(glyphs[code] for code in codes)
        arrays[f"{name}/codes"] = np.array(codes, np.uint16)
        arrays[f"{name}/cells"] = np.frombuffer(cells, np.uint8).reshape(len(codes), -1)
        print(f"{name}: {len(codes)} glyphs")
    np.savez_compressed(output, **arrays)  # type: ignore[arg-type]  # numpy's stub types the flag, not the arrays
    print(f"{output}: {output.stat().st_size} bytes")


def write_title(output: Path) -> None:
    """Draw the letters of titles: their codes, how far each moves the pen, and their shares of ink."""
    font = ImageFont.truetype(io.BytesIO(package_file(TITLE_FONT, "fonts-dejavu-core")), TITLE_SIZE)
    ascent, descent = font.getmetrics()
    codes = [*range(0x21, 0x7F), *range(0xA1, 0x100)]
    advances = [round(font.getlength(chr(code))) for code in codes]
    shapes = np.zeros((len(codes), ascent + descent, TITLE_PEN + max(advances) + 1), np.uint8)
    for shape, code in zip(shapes, codes, strict=True):
        drawn = Image.new("L", shape.shape[::-1])
        ImageDraw.Draw(drawn).text((TITLE_PEN, 0), chr(code), fill=255, font=font)
        shape[:] = np.asarray(drawn)
    drawn_ones = shapes.any(axis=(1, 2))
    np.savez_compressed(
        output,
        codes=np.array(codes, np.uint16)[drawn_ones],
        advances=np.array(advances, np.uint8)[drawn_ones],
        shapes=shapes[drawn_ones],
        pen=np.uint8(TITLE_PEN),
    )
    print(f"{output}: {output.stat().st_size} bytes")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    write(
        folder / "glyphs.npz",
        fonts(),
        lambda name, code: wanted_of_unifont(code) if name == "8x16-uni" else wanted(code),
    )
    write_title(folder.parent / "title.npz" if len(sys.argv) <= 1 else folder / "title.npz")
    write(folder / "wide.npz", iter([("16x16-uni", unifont(64))]), lambda _, code: wanted_wide(code))


if __name__ == "__main__":
    main()
