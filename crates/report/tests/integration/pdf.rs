//! `report.pdf`: every figure of the page's tables is on the paper, in any script, and the same bytes come again.

use regatta_report::{
    language::{self, Language},
    pdf::Paper,
};
use serde_json::Value;

use crate::{
    common,
    common::paper::{run, text_of, typeset},
};

/// Calls `check` with the text of each cell of the tables in `value`.
fn each_cell(value: &Value, check: &mut impl FnMut(&str)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| each_cell(value, check)),
        Value::Object(fields) => {
            for key in ["text", "sub"] {
                if let Some(text) = fields.get(key).and_then(Value::as_str) {
                    check(text);
                }
            }
            fields.values().for_each(|value| each_cell(value, check));
        }
        _ => {}
    }
}

#[test]
fn every_figure_of_the_results_is_on_the_paper() {
    let (document, pdf) = typeset(&common::full(), Paper::A4);
    let paper = text_of("pdftotext", &pdf);
    let mut figures = 0;
    for table in [
        "means",
        "published",
        "differences",
        "loss",
        "descriptions",
        "comparisons",
    ] {
        each_cell(&document["page"][table], &mut |text| {
            figures += 1;
            let text: String = text.split_whitespace().collect();
            // Words of a cell may break anywhere; figures do not.
            if text
                .chars()
                .all(|c| c.is_ascii_digit() || "[],.–−-%".contains(c))
            {
                assert!(paper.contains(&text), "`{text}` of the table `{table}`");
            }
        });
    }
    assert!(figures > 100, "{figures} cells");
}

#[test]
fn names_keep_their_script_and_the_same_run_gives_the_same_bytes() {
    let mut data = common::full();
    data.header.study.title = "Гонка протоколов, 赛".to_owned();
    let (_, first) = typeset(&data, Paper::A4);
    let (_, second) = typeset(&data, Paper::A4);
    assert_eq!(first, second);
    assert!(text_of("pdftotext", &first).contains("Гонкапротоколов,\u{FFFD}"));
}

#[test]
fn pages_have_the_requested_size() {
    for (paper, size) in [(Paper::A4, "(A4)"), (Paper::Letter, "(letter)")] {
        let (_, pdf) = typeset(&common::full(), paper);
        let info = text_of("pdfinfo", &pdf);
        assert!(info.contains(size) && info.contains("Tagged:yes"), "{info}");
    }
}

#[test]
fn the_paper_is_marked_as_accessible_with_bookmarks_and_a_language() {
    for (language, tag) in [(Language::English, "en"), (Language::Russian, "ru")] {
        let (_, pdf) = language::with(language, || typeset(&common::full(), Paper::A4));
        let metadata = run("pdfinfo", &pdf, &["-meta"]);
        assert!(metadata.contains("<pdfuaid:part>1</pdfuaid:part>"));
        let language = format!("<dc:language><rdf:Bag><rdf:li>{tag}</rdf:li>");
        assert!(metadata.contains(&language), "{metadata}");
        let has = |text: &str| pdf.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(has("/Outlines") && has(&format!("/Lang({tag})")), "{tag}");
    }
}

#[test]
fn names_of_any_characters_are_typeset() {
    let (_, pdf) = typeset(&common::hostile(), Paper::Letter);
    let text = text_of("pdftotext", &pdf);
    assert!(text.contains("<script>alert(1)</script>"), "{text}");
    assert!(text.contains("dennochvorkommt\u{FFFD}"), "{text}");
}
