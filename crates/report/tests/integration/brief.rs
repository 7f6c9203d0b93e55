//! `brief.pdf`: two pages with the answer, a figure, the main table and what a reader needs to trust them; and no page of
//! either form that is almost empty.

use regatta_report::{
    RunData,
    language::{self, Language},
    pdf::{Form, Paper},
    summarise,
};

use crate::{
    common,
    common::paper::{document_of, run, typeset_document},
    common::scale,
};

/// Returns the text of each page of a form, line by line, without empty lines.
fn pages(data: &RunData, paper: Paper, form: Form) -> Vec<Vec<String>> {
    let document = document_of(data, &summarise(data), paper, form);
    let pdf = typeset_document(&document);
    let text = run("pdftotext", &pdf, &["-layout", "-"]);
    let pages = text.trim_end_matches('\u{c}').split('\u{c}');
    let lines = |page: &str| {
        let lines = page.lines().filter(|line| !line.trim().is_empty());
        lines.map(str::to_owned).collect()
    };
    pages.map(lines).collect()
}

/// Checks that the short form has two pages; returns their texts without spaces.
#[track_caller]
fn two_pages(data: &RunData, paper: Paper) -> [String; 2] {
    let pages = pages(data, paper, Form::Brief);
    let numbers: Vec<usize> = pages.iter().map(Vec::len).collect();
    let pages: [Vec<String>; 2] = pages.try_into().unwrap_or_else(|_| panic!("{numbers:?}"));
    pages.map(|lines| lines.concat().split_whitespace().collect())
}

#[test]
fn a_run_is_told_on_two_pages() {
    let [first, second] = two_pages(&common::full(), Paper::A4);
    for text in [
        "tcp-bbris6.3%fasterthantcp,",
        "Goodput:eachtransport",
        "baseline:100Mbit/s,RTT30ms",
        "loss-5:100Mbit/s,RTT30ms",
    ] {
        assert!(first.contains(text), "`{text}` in {first}");
    }
    for text in [
        "Warnings",
        "differentcongestioncontrols",
        "Theconditions",
        "Method",
        "Deliveredapplicationbits",
        "report.html",
    ] {
        assert!(second.contains(text), "`{text}` in {second}");
    }
    // Each definition stands once.
    assert_eq!(second.matches("Meanoverthemessages").count(), 1, "{second}");
}

#[test]
fn the_lower_pages_of_letter_are_two_as_well() {
    two_pages(&common::full(), Paper::Letter);
}

#[test]
fn two_pages_are_in_russian() {
    let [_, second] = language::with(Language::Russian, || two_pages(&common::full(), Paper::A4));
    assert!(second.contains("Предупреждения"), "{second}");
    assert!(!second.contains("Where"), "{second}");
}

#[test]
fn a_run_without_trials_has_two_pages() {
    two_pages(&common::empty(), Paper::A4);
}

#[test]
fn names_of_any_characters_and_length_have_two_pages() {
    two_pages(&common::hostile(), Paper::Letter);
}

/// A study of many conditions: what does not fit is in the page.
#[test]
fn a_study_of_many_conditions_has_two_pages() {
    let mut study = common::study();
    study.rounds = 2;
    study.published.clear();
    for number in 0..8 {
        let mut condition = study.conditions[number % 2].clone();
        condition.name = format!("path-{number}");
        study.conditions.push(condition);
    }
    let [first, _] = two_pages(&common::run(study, |_| None), Paper::A4);
    assert!(first.contains("Moreconditionsareinreport.html."), "{first}");
    assert!(first.contains("Geometricmeans"), "{first}");
}

/// A sweep whose table is longer than a page.
#[test]
fn a_sweep_of_many_cells_has_two_pages() {
    let study = scale::swept_study(12, 8, 2);
    let [first, _] = two_pages(&scale::run(study, 1), Paper::A4);
    assert!(first.contains("Thesearethefirstrows"), "{first}");
}

/// Parts of the long form began on new pages: a run with few results had pages with a few lines.
#[test]
fn no_page_of_the_long_form_is_almost_empty() {
    for (number, page) in pages(&common::one_trial(), Paper::A4, Form::Full)
        .iter()
        .enumerate()
    {
        assert!(page.len() > 24, "page {}: {page:#?}", number + 1);
    }
}
