//! Reports in Russian: nothing is in English but names, identifiers and output of programs.

use std::collections::BTreeSet;

use regatta_model::METRICS;
use regatta_report::{
    RunData, html,
    language::{self, Language},
    pdf::Paper,
    summarise,
    terminal::{self, TerminalOptions},
};

use crate::{
    common,
    common::paper::{run, typeset},
};

/// Names of protocols, algorithms, tools and units of programs that Russian texts have in Latin letters.
const NAMES: &str = "Regatta TCP TLS UDP QUIC SCTP IP RTT CPU RFC HDR TSO GSO GRO CUBIC BBR CoDel SHA UTC MTU netem \
                     softirq Softirq connect pacing offload offloads on doi Cargo lock toml rustc lang html pdf ru regatta DIR report json summary results sqlite \
                     Moran Bayley Hammersley Piepho Benjamini Yekutieli Guilbaud Marriott Pope Hesterberg compact letter display warning xdg open";

/// Returns the words in Latin letters of a text.
fn latin_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    let words = words.filter(|word| word.len() > 1);
    words.map(str::to_owned).collect()
}

/// Returns the words that a report may have in Latin letters: those of the run's names and facts, and of what its
/// programs said.
fn allowed(data: &RunData) -> BTreeSet<String> {
    let header = serde_json::to_string(&data.header).expect("JSON");
    let mut words = latin_words(&header);
    words.extend(latin_words(NAMES));
    for metric in METRICS {
        words.extend(latin_words(metric.name));
        words.extend(latin_words(metric.unit.name()));
    }
    for trial in &data.trials {
        words.extend(latin_words(&(trial.reasons.concat() + " " + &trial.hint)));
        let facts = trial.measurements.facts.iter();
        facts.for_each(|(name, value)| words.extend(latin_words(&format!("{name} {value}"))));
    }
    for host in &data.hosts {
        host.lines
            .keys()
            .for_each(|name| words.extend(latin_words(name)));
    }
    words
}

/// Returns the text of a page outside of its style and script, without the words in code.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    for (open, close) in [("<style>", "</style>"), ("<script>", "</script>")] {
        assert!(rest.contains(open) && rest.contains(close));
    }
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        text.push(' ');
        let closing = ["style", "script", "code", "pre"].iter().find_map(|tag| {
            let is_tag =
                after.starts_with(tag) && !after[tag.len()..].starts_with(char::is_alphanumeric);
            is_tag.then(|| format!("</{tag}>"))
        });
        rest = match closing {
            Some(closing) => after.split_once(&closing).map_or("", |(_, rest)| rest),
            None => after.split_once('>').map_or("", |(_, rest)| rest),
        };
    }
    text.push_str(rest);
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
        .replace("&quot;", "\"")
        .replace("&#x27;", "'")
}

/// Returns a run whose study says nothing in English beside names.
fn without_prose(mut data: RunData) -> RunData {
    let study = &mut data.header.study;
    study.title = "Гонка протоколов".to_owned();
    study.description = String::new();
    study.source = None;
    study
        .published
        .iter_mut()
        .for_each(|figure| figure.note = None);
    data.header.study_text = String::new();
    data
}

/// Checks that a text has no word in Latin letters but those that are allowed.
#[track_caller]
fn assert_russian(data: &RunData, text: &str, fits: impl Fn(&str, &str) -> bool) {
    let allowed = allowed(data);
    let untranslated: Vec<String> = latin_words(text)
        .into_iter()
        .filter(|word| !allowed.iter().any(|known| fits(known, word)))
        .collect();
    assert!(untranslated.is_empty(), "{untranslated:?}");
    assert!(text.contains("доверительн"));
}

fn is_same(known: &str, word: &str) -> bool {
    known == word
}

/// Whether a word is a known one, or the part of it that a line of the paper ends or begins with.
fn is_part(known: &str, word: &str) -> bool {
    known.starts_with(word) || known.ends_with(word)
}

fn in_russian<T>(make: impl FnOnce() -> T) -> T {
    language::with(Language::Russian, make)
}

#[test]
fn the_page_is_in_russian() {
    for data in [
        common::on_hosts(),
        common::one_trial(),
        common::unsupported(),
    ] {
        let data = without_prose(data);
        let page = in_russian(|| html::render(&data, &summarise(&data))).expect("a page");
        assert!(page.contains("<html lang=\"ru\">"));
        assert_russian(&data, &text_of(&page), is_same);
    }
}

#[test]
fn the_terminal_is_in_russian() {
    let data = without_prose(common::full());
    for width in [80, 140] {
        let options = TerminalOptions {
            width,
            color: false,
            details: true,
        };
        let text = in_russian(|| terminal::render(&summarise(&data), &data, &options));
        assert_russian(&data, &text, is_same);
    }
}

#[test]
fn the_paper_is_in_russian() {
    let data = without_prose(common::on_hosts());
    let (_, pdf) = in_russian(|| typeset(&data, Paper::A4));
    let text = run("pdftotext", &pdf, &["-raw", "-"]);
    assert_russian(&data, &text, is_part);
    assert!(text.contains("Содержание"), "the outline has a title");
    assert!(text.contains("69,4"), "numbers have a decimal comma");
    assert!(!text.contains("69.4"), "and no decimal point");
}

#[test]
fn an_untranslated_word_is_found() {
    let data = without_prose(common::full());
    let page = in_russian(|| html::render(&data, &summarise(&data))).expect("a page");
    let page = page.replacen("Вывод", "Conclusion", 1);
    let untranslated: Vec<String> = latin_words(&text_of(&page))
        .difference(&allowed(&data))
        .cloned()
        .collect();
    assert_eq!(untranslated, ["Conclusion"]);
}
