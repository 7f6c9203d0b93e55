//! Claims of a study in each form of its report.

use regatta_report::{
    analysis::claims_line,
    html,
    pdf::{Form, Paper},
    summarise,
    terminal::{self, TerminalOptions},
};

use crate::common::{
    self,
    paper::{document_of, text_of, typeset_document},
};

const LINE: &str =
    "2 of 4 claims come out, 1 does not, 1 not measured here, 1 more cannot be seen here";

fn shown(options: &TerminalOptions) -> String {
    let data = common::stated();
    terminal::render(&summarise(&data), &data, options)
}

/// On the screen of a run the warnings give way to it.
#[test]
fn a_run_ends_with_a_line_about_its_claims() {
    let text = shown(&TerminalOptions::default());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&text).contains(LINE), "{text}");
    assert!(!text.contains("DCCP"), "{text}");
}

#[test]
fn the_details_list_the_claims_with_what_was_found() {
    let text = shown(&TerminalOptions {
        width: 200,
        details: true,
        ..TerminalOptions::default()
    });
    for line in [
        LINE,
        "✓  BBR is faster than CUBIC (table 1): comes out: `baseline`: `tcp-bbr` is ahead of `tcp`: 6.3",
        "✗  CUBIC is faster than BBR (table 1): does not come out: `baseline`: `tcp` is behind `tcp-bbr`: 6.3",
        "\n   `cc` decides\n",
        "✓  losses cost a tenth (table 1): comes out: `tcp`: `loss-5` / `baseline` = 0.",
        "–  DCCP is faster (table 1): not measured here: `dccp`, `baseline` is not in this run",
        "–  security is worth it (table 1): cannot be seen here: a judgement",
    ] {
        assert!(text.contains(line), "`{line}` in {text}");
    }
}

/// By hand: the cells of `tcp-bbr` and `tcp` are rows of the table of means.
#[test]
fn the_table_of_the_page_links_to_the_cells() {
    let data = common::stated();
    let summary = summarise(&data);
    let page = html::render(&data, &summary).expect("a page");
    let is = |it: &regatta_report::analysis::Cell| it.key() == ["tcp-bbr", "baseline", "bulk-10MB"];
    let position = summary.cells.iter().position(is).expect("a cell");
    for part in [
        format!("<a href=\"#cell-{position}\">tcp-bbr, baseline, bulk-10MB</a>"),
        format!("<tr id=\"cell-{position}\" data-s=\"tcp-bbr\">"),
        "<section id=\"claims\"".to_owned(),
        format!("<a href=\"#claims\">{LINE}</a>"),
        "<small><code>cc</code> decides</small>".to_owned(),
    ] {
        assert!(page.contains(&part), "`{part}`");
    }
}

/// Typesets a run without published figures, whose publication differs all the same.
fn on_paper(form: Form) -> String {
    let mut data = common::stated();
    data.header.study.published.clear();
    let summary = summarise(&data);
    assert_eq!(claims_line(&summary.claims).as_deref(), Some(LINE));
    let document = document_of(&data, &summary, Paper::A4, form);
    text_of("pdftotext", &typeset_document(&document))
}

#[test]
fn the_paper_has_the_claims_and_the_tuning_of_the_hosts() {
    let text = on_paper(Form::Full);
    let line: String = LINE.split_whitespace().collect();
    for part in [
        &line,
        "BBRisfasterthanCUBIC",
        "ccdecides",
        "securityisworthit",
        "thepublishedlistingstopstheclock",
        "Tuningbenchshowswhataprotocolcando",
    ] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
}

#[test]
fn the_short_paper_has_the_claims() {
    let text = on_paper(Form::Brief);
    let line: String = LINE.split_whitespace().collect();
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("BBRisfasterthanCUBIC"), "{text}");
}
