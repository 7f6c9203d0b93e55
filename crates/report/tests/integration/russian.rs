//! Reports in Russian: nothing is in English but names, identifiers and output of programs.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{
    Argument, METRICS, Measurements, Outcome, Phrase, Study, Text, reason,
    study::{BUILTIN, builtin},
};
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
const NAMES: &str = "Regatta TCP TLS UDP QUIC SCTP IP RTT CPU RFC HDR TSO GSO GRO CUBIC BBR CoDel SHA UTC MTU netem Ethernet \
                     softirq Softirq connect pacing offload offloads on doi Cargo lock toml rustc lang html pdf ru regatta report json summary results sqlite \
                     Moran Bayley Hammersley Piepho Benjamini Yekutieli Guilbaud Marriott Pope Hesterberg Rouder Lai compact letter display warning xdg open bench defaults";

/// Returns the words in Latin letters of a text.
fn latin_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    let words = words.filter(|word| word.len() > 1);
    words.map(str::to_owned).collect()
}

/// Returns what a text has in the words of somebody else: all of it, or where it has a phrase the text among its arguments.
fn own_words(text: &Text) -> String {
    text.phrase().map_or_else(|| text.to_string(), quoted)
}

fn quoted(phrase: &Phrase) -> String {
    let arguments = phrase.arguments.values();
    let texts = arguments.map(|argument| match argument {
        Argument::Text(text) => text.clone(),
        Argument::Names(names) => names.join(" "),
        Argument::Phrase(phrase) => quoted(phrase),
        Argument::Phrases(phrases) | Argument::List(phrases) => {
            phrases.iter().map(quoted).join(" ")
        }
        _ => String::new(),
    });
    texts.collect::<Vec<String>>().join(" ")
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
        for text in trial.reasons.iter().chain([&trial.hint]) {
            words.extend(latin_words(&own_words(text)));
        }
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
    let is_cyrillic = |it: char| ('а'..='я').contains(&it);
    assert!(text.contains(is_cyrillic), "{text}");
}

fn is_same(known: &str, word: &str) -> bool {
    known == word
}

/// Whether a word is a known one, or the letters of a group of the ranking.
fn is_same_or_letters(known: &str, word: &str) -> bool {
    known == word || "abcdefg".contains(word)
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
        failed_in_drivers(),
    ] {
        let data = without_prose(data);
        let page = in_russian(|| html::render(&data, &summarise(&data))).expect("a page");
        assert!(page.contains("<html lang=\"ru\">"));
        assert_russian(&data, &text_of(&page), is_same);
    }
}

/// Returns a run whose trials failed with errors of drivers and of the processes at their ends.
fn failed_in_drivers() -> RunData {
    let mut data = common::one_trial();
    let refused = || Text::from("Connection refused (os error 111)");
    let failures: [Vec<Text>; 5] = [
        vec![
            reason::failed(reason::subject_sender(), "a").into(),
            reason::cannot_connect("10.60.0.2").into(),
            refused(),
        ],
        vec![
            reason::died(reason::subject_receiver(), "b").into(),
            reason::process_ended_with("signal: 11 (SIGSEGV)".into()).into(),
            reason::last_lines("thread main panicked").into(),
        ],
        vec![
            reason::quic_handshake_failed("10.60.0.1").into(),
            reason::closed_by_application("0x0").into(),
        ],
        vec![
            reason::program_failed("/usr/bin/ftp").into(),
            reason::program_ended_early(reason::exit_code("3")).into(),
            reason::last_stderr("no space").into(),
        ],
        vec![
            reason::guest_hung(reason::the_guest(), std::time::Duration::from_secs(15)).into(),
            reason::stopped_by_signal().into(),
        ],
    ];
    let measured = data.trials.remove(0);
    data.trials = (0..)
        .zip(failures)
        .map(|(index, reasons)| {
            let mut failed = measured.clone();
            (failed.index, failed.outcome, failed.reasons) = (index, Outcome::Failed, reasons);
            failed.round = index;
            failed.measurements = Measurements::default();
            failed
        })
        .collect();
    data.header.study.rounds = data.trials.len() as u32;
    data
}

/// Returns a short run of a built-in study.
fn of_study(name: &str) -> RunData {
    let builtin = builtin(name).expect("a built-in study");
    let mut study = Study::parse(builtin.text, name).expect("a sound study");
    // What more rounds and cells would say is said of these.
    study.rounds = 2;
    study.transports.truncate(2);
    study.conditions.truncate(2);
    study.workloads.truncate(2);
    without_prose(common::run(study, |_| None))
}

/// Numbers of sections of sources that the method cites.
const SECTIONS: &str = "11.3 4.2 3.4";

/// Returns the numbers with a decimal point of a text outside of `allowed`: not versions or addresses, which have several.
fn decimal_points(text: &str, allowed: &str) -> BTreeSet<String> {
    let numbers = text.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    let numbers = numbers.map(|number| number.trim_matches('.'));
    let is_decimal = |number: &&str| {
        let mut parts = number.split('.');
        let mut digits = || {
            parts
                .next()
                .is_some_and(|it| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit()))
        };
        digits() && digits() && parts.next().is_none()
    };
    let found = numbers.filter(is_decimal);
    let found = found.filter(|it| !allowed.contains(it) && !SECTIONS.contains(it));
    found.map(str::to_owned).collect()
}

/// Checks every sentence of the page and of the terminal of a study's report in Russian.
#[track_caller]
fn assert_report_in_russian(name: &str) {
    let data = of_study(name);
    let (page, terminal) = in_russian(|| {
        let summary = summarise(&data);
        let page = html::render(&data, &summary).expect("a page");
        let details = TerminalOptions {
            details: true,
            ..TerminalOptions::default()
        };
        let [brief, details] = [TerminalOptions::default(), details]
            .map(|options| terminal::render(&summary, &data, &options));
        let terminal = brief + &details;
        // Without what the page has as code, and without the names that are cut.
        let terminal: String = terminal.split('`').step_by(2).collect();
        let mut words = terminal.split(' ').filter(|word| !word.contains('…'));
        (text_of(&page), words.join(" "))
    });
    let names = serde_json::to_string(&data.header).expect("JSON");
    for text in [&page, &terminal] {
        assert_russian(&data, text, is_same_or_letters);
        let points = decimal_points(text, &names);
        assert!(points.is_empty(), "{points:?}");
    }
}

/// Defines a test of the report of each built-in study, and one that there is no other.
macro_rules! reports_in_russian {
    ($($test:ident: $study:literal;)*) => {
        $(#[test]
        fn $test() {
            assert_report_in_russian($study);
        })*

        #[test]
        fn every_built_in_study_is_read() {
            let studies: Vec<&str> = BUILTIN.iter().map(|it| it.name).collect();
            assert_eq!(studies, [$($study),*]);
        }
    };
}

reports_in_russian! {
    gadasin_short_is_in_russian: "gadasin-2026-short";
    gadasin_is_in_russian: "gadasin-2026";
    gadasin_handshakes_is_in_russian: "gadasin-2026-handshakes";
    gadasin_streams_is_in_russian: "gadasin-2026-streams";
    gadasin_multihoming_is_in_russian: "gadasin-2026-multihoming";
    gadasin_migration_is_in_russian: "gadasin-2026-migration";
    gadasin_loss_is_in_russian: "gadasin-2026-loss";
    gadasin_loss_offloads_is_in_russian: "gadasin-2026-loss-offloads";
    gadasin_queue_is_in_russian: "gadasin-2026-queue";
    gadasin_programs_is_in_russian: "gadasin-2026-programs";
    message_size_short_is_in_russian: "message-size-short";
    message_size_is_in_russian: "message-size";
    buffer_size_short_is_in_russian: "buffer-size-short";
    buffer_size_is_in_russian: "buffer-size";
    olkhovik_short_is_in_russian: "olkhovik-2025-short";
    olkhovik_is_in_russian: "olkhovik-2025";
    olkhovik_hosts_is_in_russian: "olkhovik-2025-hosts";
    olkhovik_core_is_in_russian: "olkhovik-2025-core";
    udpr_is_in_russian: "udpr";
    udpr_short_is_in_russian: "udpr-short";
    udpr_messages_is_in_russian: "udpr-messages";
    udpr_whole_is_in_russian: "udpr-whole";
    page_load_is_in_russian: "page-load";
    video_segments_is_in_russian: "video-segments";
    rpc_mix_is_in_russian: "rpc-mix";
    queue_disciplines_is_in_russian: "queue-disciplines";
    competition_bbr_is_in_russian: "competition-bbr";
    rfc9743_is_in_russian: "rfc9743";
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
