//! The typesetter: fonts, glyphs, formats, errors, and where it is found.

use std::{fs, path::Path};

use regatta_report::pdf::{self, Typesetter};
use serde_json::{Value, json};

use crate::common::paper::{run_typesetter, typeset_job};

/// Template that shows the text of a page.
const TEMPLATE: &str =
    "#let page = json(\"page.json\")\n#set document(title: page.text)\n#page.text\n";

/// Returns a job with one document.
fn job(template: &str, page: &Value, formats: &[&str]) -> String {
    let document =
        json!({ "template": template, "page": page, "formats": formats, "unix_time_s": 1 });
    json!({ "documents": [document], "dots_per_inch": 300 }).to_string()
}

/// Typesets a text in one format.
fn typeset(text: &str, format: &str) -> Vec<u8> {
    let files = typeset_job(&job(TEMPLATE, &json!({ "text": text }), &[format]));
    files.into_iter().next().expect("one file")
}

/// Returns the message of a template that is wrong.
fn error(template: &str) -> String {
    let output = run_typesetter(&job(template, &Value::Null, &["pdf"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn the_same_job_gives_the_same_bytes() {
    assert!(typeset("Лодка", "pdf") == typeset("Лодка", "pdf"));
    assert!(typeset("Лодка", "pdf") != typeset("Лодки", "pdf"));
}

#[test]
fn characters_without_a_glyph_are_replaced() {
    let with = |character: &str| typeset(&format!("Ёж {character} ≤ ● → ✓ ⁷"), "pdf");
    let replaced = with("\u{fffd}");
    assert!(replaced != with("ж"));
    // The messages of Typst escape the last one, a character of a private use.
    for character in ["\u{1f6a3}", "赛", "\u{10fffd}"] {
        assert!(with(character) == replaced, "{character}");
    }
    assert!(with("赛龙") == with("\u{fffd}\u{fffd}"));
    // There is a glyph for each, but no font has both, which an accent needs.
    with("e\u{20dd}");
    with("€\u{20dd}");
}

#[test]
fn a_figure_is_drawn_with_its_text() {
    let figure = |text: &str| {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"25.4mm\" height=\"12.7mm\" \
             viewBox=\"0 0 100 50\" font-family=\"Noto Sans\"><text x=\"9\" y=\"30\">{text}</text></svg>"
        );
        let template = "#set page(width: 25.4mm, height: 12.7mm, margin: 0pt)\n\
                        #image(bytes(json(\"page.json\").svg), format: \"svg\", width: 100%)";
        typeset_job(&job(template, &json!({ "svg": svg }), &["png"]))
    };
    let [with, without] = [figure("goodput"), figure("")];
    assert!(with == figure("goodput"));
    assert!(with != without, "the text is drawn");
    let bold = figure("<tspan font-weight=\"bold\">goodput</tspan>");
    assert!(with != bold, "in its weight");
    // Width and height stand in the first chunk.
    assert_eq!(with[0][16..24], [0, 0, 1, 44, 0, 0, 0, 150]);
}

#[test]
fn files_come_in_the_order_of_the_job() {
    let page = json!({ "text": "Лодка" });
    let files = typeset_job(&job(TEMPLATE, &page, &["png", "pdf"]));
    let begins: Vec<&[u8]> = files.iter().map(|file| &file[1..4]).collect();
    assert_eq!(begins, [b"PNG", b"PDF"]);
}

#[test]
fn errors_name_the_line_of_the_template() {
    assert_eq!(
        error("= A\n#nothing\n").trim_end(),
        "the document could not be typeset: line 2: unknown variable: nothing"
    );
}

#[test]
fn a_document_reads_nothing_but_its_page() {
    for name in ["/etc/passwd", "Cargo.toml", "../Cargo.toml"] {
        let error = error(&format!("#read(\"{name}\")"));
        assert!(error.contains("line 1: "), "{error}");
    }
}

#[test]
fn fonts_of_the_system_are_not_used() {
    let with = |font: &str| {
        let template = format!("#set document(title: \"A\")\n#text(font: \"{font}\")[A]\n");
        typeset_job(&job(&template, &Value::Null, &["pdf"]))
    };
    assert!(with("Noto Sans") != with("No Such Font"));
    assert!(with("DejaVu Sans") == with("No Such Font"));
}

#[test]
fn packages_are_found_in_their_directory_and_in_an_environment() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |path: &str| directory.path().join(path);
    let python = |path: &str| {
        let typesetter = Typesetter::installed_in(&at(path))?;
        Some(typesetter.python().to_owned())
    };
    fs::create_dir_all(at("environment/lib/python3.9/site-packages/other")).expect("made");
    assert_eq!(python("environment"), None);
    fs::create_dir_all(at("environment/lib/python3.10/site-packages/typst")).expect("made");
    assert_eq!(python("environment").as_deref(), Some(Path::new("python3")));
    fs::create_dir_all(at("environment/bin")).expect("made");
    fs::write(at("environment/bin/python3"), "").expect("written");
    assert_eq!(python("environment"), Some(at("environment/bin/python3")));
    let packages = "environment/lib/python3.10/site-packages";
    assert_eq!(python(packages).as_deref(), Some(Path::new("python3")));
    assert_eq!(python("nowhere"), None);
}

#[test]
fn an_output_that_is_cut_off_has_no_files() {
    let output = [&2_u64.to_be_bytes()[..], b"ab", &0_u64.to_be_bytes()].concat();
    assert_eq!(pdf::files(&output), Some(vec![&b"ab"[..], b""]));
    for length in 1..output.len() {
        let whole = length == 10;
        assert_eq!(pdf::files(&output[..length]).is_some(), whole, "{length}");
    }
}
