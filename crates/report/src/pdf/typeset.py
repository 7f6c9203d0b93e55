"""Typesets the documents of a job with the package `typst`, for `regatta report --pdf` and `--figures`.

    python3 -c PROGRAM PACKAGES <job >files

The job is JSON on standard input. PACKAGES is the directory in which `typst` and `fontpkg_noto_sans` are installed. Each
file is written as its length, in 8 bytes, and its content.

A document has the fonts of these two packages, whatever is installed beside them: the same job gives the same bytes.
"""

import json
import os
import re
import sys

PACKAGES = sys.argv[1]
FONTS = os.path.join(PACKAGES, "fontpkg_noto_sans", "files")
NO_GLYPH = re.compile(r'the text `"(.+?)"` could not be displayed')
ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}")


def fail(message):
    sys.exit(f"the document could not be typeset: {message}")


def compiler(template, page):
    """Compiler of a template that can read `page.json` and the fonts."""
    return typst.Compiler({"main.typ": template.encode(), "page.json": page.encode()}, root=FONTS, font_paths=fonts)


def pdf(document, page):
    # UA-1: tagged, with bookmarks and a text for each figure.
    return compiler(document["template"], page).compile(
        format="pdf", pdf_standards="ua-1", timestamp=document["unix_time_s"]
    )


def png(document, page):
    return compiler(document["template"], page).compile(format="png", ppi=job["dots_per_inch"])


FORMATS = {"pdf": pdf, "png": png}


def without_glyph(error):
    """Characters of which no font has a glyph, by the messages of an error. ASCII has glyphs, if not with every accent."""
    texts = (ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text) for text in NO_GLYPH.findall(error.diagnostic))
    return {character for character in "".join(texts) if not character.isascii()}


def files(document):
    """Document in each of its formats. Characters without a glyph, which PDF/UA forbids, become U+FFFD."""
    page = json.dumps(document["page"], ensure_ascii=False)
    while True:
        try:
            return [FORMATS[name](document, page) for name in document["formats"]]
        except typst.TypstError as error:
            # Those of the template cannot be replaced.
            characters = (without_glyph(error) & set(page)) - {"\ufffd"}
            if not characters:
                raise
            page = page.translate(dict.fromkeys(map(ord, characters), "\ufffd"))


def errors(error):
    """Messages of an error, each with its line of the template."""
    found = re.findall(r"^error: (.+)(?:\n +┌─ .*main\.typ:(\d+):)?", error.diagnostic, re.MULTILINE)
    return "; ".join(f"line {line}: {message}" if line else message for message, line in found) or error.message


job = json.load(sys.stdin.buffer)
sys.path.insert(0, PACKAGES)
try:
    import typst
except ImportError as error:
    fail(f"the package `typst` cannot be loaded: {error}")
if not os.path.isdir(FONTS):
    fail(f"there are no fonts in `{FONTS}`: the package `fontpkg-noto-sans` is not installed")
# With Typst's own fonts, of which DejaVu Sans Mono has the code and the symbols that Noto Sans lacks.
fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=True, font_paths=[FONTS])
try:
    for document in job["documents"]:
        for file in files(document):
            sys.stdout.buffer.write(len(file).to_bytes(8, "big") + file)
except typst.TypstError as error:
    fail(errors(error))
