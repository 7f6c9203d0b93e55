//! Typesetting of documents in the language of Typst as PDF.
//!
//! A document sees the files that it is given and nothing else: neither the disk nor the network, fonts of the
//! system nor the clock. The same files always give the same bytes.

use std::{collections::HashMap, fmt::Write as _};

use resvg::usvg;
use tiny_skia::{Color, Pixmap, Transform};
use typst::{
    Library, LibraryExt as _, World, WorldExt as _,
    diag::{FileError, FileResult, SourceDiagnostic},
    foundations::{Bytes, Datetime, Duration, Smart},
    syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot},
    text::{Font, FontBook, FontVariant},
    utils::LazyHash,
};
use typst_layout::PagedDocument;
use typst_pdf::{PdfOptions, PdfStandard, PdfStandards};

/// Fonts of every document: Noto Sans for text, DejaVu Sans for scripts and symbols that it lacks, DejaVu Sans Mono for
/// code.
fn fonts() -> Vec<Font> {
    let faces = font_files().into_iter().map(Bytes::new);
    faces.flat_map(Font::iter).collect()
}

fn font_files() -> [&'static [u8]; 6] {
    [
        ttf_noto_sans::REGULAR,
        ttf_noto_sans::BOLD,
        ttf_noto_sans::ITALIC,
        dejavu::sans::regular(),
        dejavu::sans::bold(),
        dejavu::sans_mono::regular(),
    ]
}

/// Figure that could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The figure is not a document in SVG.
    #[error("the figure is not valid SVG")]
    Svg(#[from] usvg::Error),
    /// The figure has no area, or too much of it.
    #[error("a figure of {width} × {height} dots cannot be drawn")]
    Size {
        /// Width in dots.
        width: u32,
        /// Height in dots.
        height: u32,
    },
    /// The PNG could not be encoded.
    #[error("the PNG cannot be encoded: {0}")]
    Png(String),
}

/// Draws a figure on white as PNG. The same figure always gives the same bytes.
///
/// # Errors
/// [`FigureError`] if `svg` is not SVG, or too large at this resolution.
pub fn png(svg: &str, dots_per_inch: f32) -> Result<Vec<u8>, FigureError> {
    let mut options = usvg::Options::default();
    for file in font_files() {
        options.fontdb_mut().load_font_data(file.to_vec());
    }
    let tree = usvg::Tree::from_str(svg, &options)?;
    let scale = dots_per_inch / options.dpi;
    let [width, height] =
        [tree.size().width(), tree.size().height()].map(|length| (length * scale).round() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(FigureError::Size { width, height })?;
    pixels.fill(Color::WHITE);
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| FigureError::Png(error.to_string()))
}

/// Document that could not be typeset, with the messages of the typesetter.
#[derive(Debug, thiserror::Error)]
#[error("the document could not be typeset: {0}")]
pub struct TypesetError(String);

/// Typesetter with its fonts.
pub struct Typesetter {
    library: LazyHash<Library>,
    book: LazyHash<FontBook>,
    fonts: Vec<Font>,
}

impl Default for Typesetter {
    fn default() -> Self {
        let fonts = fonts();
        Self {
            library: LazyHash::new(Library::builder().build()),
            book: LazyHash::new(FontBook::from_fonts(&fonts)),
            fonts,
        }
    }
}

impl Typesetter {
    /// Typesets `template`, which may read `data` as `page.json`, as PDF/UA-1: tagged, with bookmarks and a text for
    /// each figure. `identity` identifies the document: two PDFs of one results file have the same.
    ///
    /// # Errors
    /// [`TypesetError`] with the lines of the template that are wrong.
    pub fn pdf(
        &self,
        template: &str,
        data: String,
        identity: &str,
    ) -> Result<Vec<u8>, TypesetError> {
        let document = Document {
            typesetter: self,
            main: Source::new(file_id("main.typ"), template.to_owned()),
            data: (
                file_id("page.json"),
                Bytes::from_string(self.with_glyphs(data)),
            ),
        };
        let failed = |errors: &[SourceDiagnostic]| document.error(errors);
        let pages: PagedDocument = typst::compile(&document)
            .output
            .map_err(|errors| failed(&errors))?;
        let standards = PdfStandards::new(&[PdfStandard::Ua_1])
            .map_err(|error| TypesetError(error.message().to_string()))?;
        let options = PdfOptions {
            ident: Smart::Custom(identity.to_owned()),
            standards,
            ..PdfOptions::default()
        };
        typst_pdf::pdf(&pages, &options).map_err(|errors| failed(&errors))
    }

    /// Replaces characters of which no font has a glyph, as PDF/UA demands, by U+FFFD.
    fn with_glyphs(&self, text: String) -> String {
        let drawn = |c: char| {
            c.is_ascii()
                || self
                    .book
                    .select_fallback(None, FontVariant::default(), c.encode_utf8(&mut [0; 4]))
                    .is_some()
        };
        if text.chars().all(drawn) {
            return text;
        }
        let mut known = HashMap::new();
        let shown = |c: char| {
            if *known.entry(c).or_insert_with(|| drawn(c)) {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        };
        text.chars().map(shown).collect()
    }
}

fn file_id(name: &str) -> FileId {
    let path = VirtualPath::new(name).expect("a plain name is a path");
    RootedPath::new(VirtualRoot::Project, path).intern()
}

/// Document being typeset, and all that it may read.
struct Document<'a> {
    typesetter: &'a Typesetter,
    main: Source,
    data: (FileId, Bytes),
}

impl Document<'_> {
    fn error(&self, errors: &[SourceDiagnostic]) -> TypesetError {
        let mut text = String::new();
        for error in errors {
            let line = (self.range(error.span))
                .and_then(|range| self.main.lines().byte_to_line(range.start))
                .map_or_else(String::new, |line| format!("line {}: ", line + 1));
            let separator = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{separator}{line}{}", error.message);
        }
        TypesetError(text)
    }
}

impl World for Document<'_> {
    fn library(&self) -> &LazyHash<Library> {
        &self.typesetter.library
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &self.typesetter.book
    }

    fn main(&self) -> FileId {
        self.main.id()
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        if id == self.main.id() {
            Ok(self.main.clone())
        } else {
            Err(FileError::AccessDenied)
        }
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        let (name, data) = &self.data;
        if id == *name {
            Ok(data.clone())
        } else {
            Err(FileError::AccessDenied)
        }
    }

    fn font(&self, index: usize) -> Option<Font> {
        self.typesetter.fonts.get(index).cloned()
    }

    fn today(&self, _offset: Option<Duration>) -> Option<Datetime> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str =
        "#let page = json(\"page.json\")\n#set document(title: page.title)\n= #page.title\n";

    fn typeset(title: &str) -> Vec<u8> {
        let data = serde_json::json!({ "title": title }).to_string();
        let typesetter = Typesetter::default();
        typesetter.pdf(TEMPLATE, data, "run").expect("a PDF")
    }

    #[test]
    fn same_input_gives_same_bytes() {
        assert_eq!(typeset("Лодка"), typeset("Лодка"));
    }

    #[test]
    fn characters_without_a_glyph_are_replaced() {
        assert_eq!(typeset("\u{1F6A3}"), typeset("\u{FFFD}"));
    }

    #[test]
    fn a_figure_is_drawn_with_its_text() {
        let figure = |text: &str| {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"25.4mm\" height=\"12.7mm\" \
                 viewBox=\"0 0 100 50\" font-family=\"Noto Sans\"><text x=\"9\" y=\"30\">{text}</text></svg>"
            );
            png(&svg, 300.0).expect("a PNG")
        };
        let [with, without] = [figure("goodput"), figure("")];
        assert_eq!(with, figure("goodput"));
        assert_ne!(with, without, "the text is drawn");
        // Width and height stand in the first chunk.
        assert_eq!(with[16..24], [0, 0, 1, 44, 0, 0, 0, 150]);
    }

    #[test]
    fn template_errors_name_the_line() {
        let error = Typesetter::default()
            .pdf("= A\n#nothing\n", "{}".to_owned(), "run")
            .expect_err("an unknown variable");
        assert_eq!(
            error.to_string(),
            "the document could not be typeset: line 2: unknown variable: nothing"
        );
    }
}
