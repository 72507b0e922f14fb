#!/usr/bin/env python3
"""Turn GRUB's font (PF2, GNU Unifont) into the console's: 256 glyphs of 8 x 16 pixels.

    mkfont.py OUTPUT.S

The file comes with the package grub-common, which the boot image needs anyway. Glyph N is the Latin-1 character N; the codes
where Latin-1 has only control characters show the line drawing and symbols of the old PC character set. Bit 7 of a
byte is the leftmost pixel; 16 bytes, top to bottom, are a glyph.
"""
import os
import struct
import sys

PLACES = ("/usr/share/grub/unicode.pf2", "/boot/grub/fonts/unicode.pf2", "/usr/share/grub2/unicode.pf2")
LOW = " ☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼"
HIGH = "─│┌┐└┘├┤┬┴┼═║╔╗╚╝╠╣╦╩╬░▒▓█▄▀■…€–"
WIDTH, HEIGHT = 8, 16


def read_pf2(data):
    """The font's ascent and where each character's glyph lies."""
    at, ascent, index = 0, 0, {}
    while at + 8 <= len(data):
        name, length = data[at:at + 4], struct.unpack_from(">I", data, at + 4)[0]
        body = at + 8
        if name == b"DATA":
            break
        if name == b"ASCE":
            ascent = struct.unpack_from(">H", data, body)[0]
        elif name == b"CHIX":
            for entry in range(body, body + length, 9):
                code, flags, offset = struct.unpack_from(">IBI", data, entry)
                if flags & 7 == 0:			# not compressed
                    index[code] = offset
        at = body + length
    return ascent, index


def glyph(data, ascent, offset):
    """Draw one glyph, given as a tight bitmap and its place, into its cell."""
    width, height, x, y, _ = struct.unpack_from(">HHhhh", data, offset)
    rows = [0] * HEIGHT
    for i in range(width * height):
        if data[offset + 10 + i // 8] >> (7 - i % 8) & 1:
            column, row = x + i % width, ascent - y - height + i // width
            if 0 <= column < WIDTH and 0 <= row < HEIGHT:
                rows[row] |= 0x80 >> column
    return rows


def main():
    path = next((p for p in PLACES if os.path.exists(p)), None)
    if path is None:
        sys.exit("mkfont: no unicode.pf2; run 'make deps' (package grub-common)")
    with open(path, "rb") as f:
        data = f.read()
    ascent, index = read_pf2(data)
    characters = LOW + "".join(map(chr, range(0x20, 0x7F))) + "⌂" + HIGH + "".join(map(chr, range(0xA0, 0x100)))
    assert len(characters) == 256
    missing = index.get(0xFFFD, index.get(ord("?")))
    with open(sys.argv[1] + ".tmp", "w") as out:
        out.write("/* Made by boot/mkfont.py. */\n\t.section .rodata\n\t.globl console_font\n\t.balign 16\n"
                  "\t.type console_font, @object\n\t.size console_font, 256 * 16\nconsole_font:\n")
        for code, character in enumerate(characters):
            rows = glyph(data, ascent, index.get(ord(character), missing))
            out.write(f"\t.byte {', '.join(f'0x{r:02x}' for r in rows)}\t/* {code:02x} */\n")
        out.write('\t.section .note.GNU-stack, "", @progbits\n')
    os.replace(sys.argv[1] + ".tmp", sys.argv[1])


if __name__ == "__main__":
    main()
