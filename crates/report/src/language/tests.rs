use regatta_model::{METRICS, Outcome, STACK_FACTS, metric};

use super::*;

fn russian(text: &str) -> String {
    with(Language::Russian, || sentence(text))
}

#[test]
fn counts_have_their_forms() {
    let rounds = |count: u64| {
        with(Language::Russian, || {
            plural!(count, "{} round", "{} rounds")
        })
    };
    let shown = [1, 2, 5, 11, 12, 21, 22, 25, 101, 111].map(rounds);
    assert_eq!(
        shown,
        [
            "1 раунд",
            "2 раунда",
            "5 раундов",
            "11 раундов",
            "12 раундов",
            "21 раунд",
            "22 раунда",
            "25 раундов",
            "101 раунд",
            "111 раундов"
        ]
    );
    assert_eq!(plural!(1, "{} round", "{} rounds"), "1 round");
}

#[test]
fn quantities_have_decimal_commas_and_russian_units() {
    assert_eq!(russian("1.5 ms"), "1,5 мс");
    assert_eq!(russian("2 min 5 s"), "2 мин 5 с");
    assert_eq!(russian("± 2 ms"), "± 2 мс");
    assert_eq!(russian("50 packets"), "50 пакетов");
    assert_eq!(
        russian("trace `lte`, 12 Mbit/s on average"),
        "трасса `lte`, в среднем 12 Мбит/с"
    );
    let number = with(Language::Russian, || crate::format::number(4.9));
    assert_eq!(number, "4,90");
    assert_eq!(crate::format::number(4.9), "4.90");
}

#[test]
fn a_sentence_of_a_run_keeps_its_figures_and_names() {
    assert_eq!(
        russian("the deadline of 4 s was reached after 0.66 MB of 10 MB"),
        "предельное время 4 с достигнуто после 0,66 МБ из 10 МБ"
    );
    assert_eq!(
        russian(
            "the transfer was stopped at its deadline of 1.5 s; measured is what was delivered by then: 950.456 kB of 1 MB"
        ),
        "передача остановлена по истечении предельного времени 1,5 с; измерено доставленное к этому моменту: 950,456 кБ из 1 МБ"
    );
    // A message that the table does not have is not translated.
    assert_eq!(
        russian("no route to `lab-2` in 1.5 s"),
        "no route to `lab-2` in 1.5 s"
    );
    assert_eq!(russian("loss-5 and h2"), "loss-5 and h2");
}

/// Returns the words in Latin letters of a sentence in Russian outside of backticks and without `names`.
fn latin_words(sentence: &str, names: &[&str]) -> Vec<String> {
    let outside: String = sentence.split('`').step_by(2).collect();
    let words = outside.split(|c: char| !c.is_ascii_alphabetic());
    words
        .filter(|word| !word.is_empty() && !names.contains(word))
        .map(str::to_owned)
        .collect()
}

#[test]
fn warnings_hints_and_facts_of_runs_are_in_russian() {
    let names = [
        "TCP", "UDP", "QUIC", "IP", "INFO", "MTU", "GSO", "TSO", "Regatta",
    ];
    for english in [
        "time was virtual: work takes no time in it, so there are no figures of CPU time, and no transport is limited by how fast its software is",
        "run it with `--clock real` to measure CPU time",
        "slow start overflowed the path's queue: after 200 ms 500 packets were sent again, 100 % of the 500 that path and queue hold; the queue dropped 480 in the whole trial",
        "ask for a larger `--queue`, or give the transport a smaller window where it has such an option",
        "the kernel of the receiver ran short of memory for TCP's buffers, so that it kept windows small and dropped segments: the rate is the machine's and not the protocol's",
        "raise `net.ipv4.tcp_mem` there, run fewer connections at once, or use a machine with more memory",
        "a scale of 0.5 % was asked for: the run has 3 of the study's 5 rounds, and each trial 2.5 % of its volume; volumes that a sweep varies are whole, so that the run takes a larger part of the study's time; a transfer may end before its path has made all its changes",
        "for `tcp`, `tcp-tls` Regatta asks for `cubic`, as no `cc` is set; the default of the host's kernel is `bbr`, which other programs there use",
        "`tcp`, `mptcp` are not encrypted and `quic-quinn`, `quic-s2n` are, so a difference between them is encryption's, too",
        "the path of `c` from 5 s on was outside its tolerance when it was checked: `forward_link_rate_bps` was 9.5 Mbit/s instead of 10 Mbit/s, `forward_loss_ratio` was 2 % instead of 1 %",
        "the path of `c` changes after 2 min 5 s, when the deadline of 2 min has ended every transfer",
        "the kernel grants the sender a window of 100 kB, and 30 ms at 1 Gbit/s holds 3.75 MB",
        "not applicable: UDP has none",
        "not known: no TCP_INFO",
        "every second packet, or after 40 ms; each packet at first",
        "stream 704531 B, connection 880663 B",
        "TSO, GSO of the interface",
    ] {
        let shown = russian(english);
        assert_ne!(shown, english);
        let untranslated = latin_words(&shown, &names);
        assert!(untranslated.is_empty(), "{untranslated:?} in `{shown}`");
    }
}

#[test]
fn lists_and_time_spans_are_one_argument_and_clauses_stand_by_themselves() {
    assert_eq!(
        russian(
            "the transfer was stopped at its deadline of 2 min 5 s; measured is what was delivered by then: 1 MB of 10 MB"
        ),
        "передача остановлена по истечении предельного времени 2 мин 5 с; измерено доставленное к этому моменту: 1 МБ из 10 МБ"
    );
    assert_eq!(
        russian(
            "`tcp` is not encrypted and `a`, `b`, `c` are, so a difference between them is encryption's, too"
        ),
        "`tcp` без шифрования, а `a`, `b`, `c` с шифрованием, так что различие между ними вызвано и шифрованием"
    );
    assert_eq!(
        russian("not known: no association yet; 9.9 packets"),
        "неизвестно: ассоциации ещё нет; 9,9 пакетов"
    );
    // The output of a program is not translated, also in parentheses.
    assert_eq!(
        russian("2 of 10 connections failed, the last one with: connection refused"),
        "не состоялось соединений: 2 из 10, последнее по причине: connection refused"
    );
    assert_eq!(
        russian("netns, netem between the hosts (Linux 6.12.3, seeded)"),
        "пространства имён сети, netem между хостами (Linux 6.12.3, с начальным значением)"
    );
    assert_eq!(
        russian(
            "uml, Linux 6.12.117, virtual time: netns, netem between the hosts (Linux 6.12.117, seeded)"
        ),
        "uml, Linux 6.12.117, виртуальное время: пространства имён сети, netem между хостами (Linux 6.12.117, с начальным значением)"
    );
    assert_eq!(
        russian("packets declared lost (RFC 9002); QUIC sends their content again in new packets"),
        "пакеты, объявленные потерянными (RFC 9002); QUIC отправляет их содержимое снова в новых пакетах"
    );
    // One unknown clause leaves the whole list in English.
    assert_eq!(
        russian("fixed, no more than that"),
        "fixed, no more than that"
    );
}

#[test]
fn reasons_of_unranked_transports_continue_the_sentence() {
    let lost = with(Language::Russian, || {
        tr!("lost {} of its messages", "30,9 %")
    });
    assert_eq!(format!("`udp` {lost}"), "`udp` потерял 30,9 % сообщений");
}

#[test]
fn the_language_is_that_of_the_call() {
    let inner = with(Language::Russian, || text("median"));
    assert_eq!((inner, text("median")), ("медиана", "median"));
}

/// Returns the placeholders of a message in the order of their positions.
fn placeholders(message: &str) -> Vec<usize> {
    let mut next = 0;
    let mut found: Vec<usize> = (message.split('{').skip(1))
        .map(|part| {
            let inner = part.split('}').next().unwrap_or_default();
            inner.parse().unwrap_or_else(|_| {
                next += 1;
                next - 1
            })
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_message_is_there_once_with_all_its_arguments() {
    let mut seen = std::collections::BTreeSet::new();
    for (context, english, forms) in russian::MESSAGES {
        assert!(
            seen.insert((context, english)),
            "`{english}` is there twice"
        );
        assert!([1, 3].contains(&forms.len()), "{english}");
        for form in *forms {
            // A form for one may say the number in words.
            assert_eq!(placeholders(form), placeholders(english), "{english}");
            assert!(!form.is_empty());
        }
    }
}

#[test]
fn every_text_of_the_model_has_a_russian_one() {
    let titles = METRICS.iter().flat_map(|it| [it.title, it.definition]);
    let series = metric::SERIES.iter().map(|it| it.title);
    let facts = STACK_FACTS.iter().map(|it| it.title);
    let drawn = ["goodput", "round-trip delay"];
    let missing: Vec<&str> = titles
        .chain(series.filter(|title| {
            ![
                "smoothed RTT",
                "bytes in flight",
                "round-trip delay on a stream",
                "CPU of the host in softirq",
                "settling time after a step",
            ]
            .contains(title)
        }))
        .chain(facts)
        .chain(drawn)
        .filter(|text| !MESSAGES.contains_key(text))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for outcome in Outcome::ALL {
        assert!(MESSAGES.contains_key(&*outcome.label()), "{outcome:?}");
    }
}

#[test]
fn every_text_of_the_templates_has_a_russian_one() {
    let templates = [
        include_str!("../html/report.html"),
        include_str!("../html/head.html"),
        include_str!("../html/controls.html"),
        include_str!("../pdf/parts.typ"),
        include_str!("../pdf/report.typ"),
        include_str!("../pdf/brief.typ"),
    ];
    let texts = templates.iter().flat_map(|template| {
        // Not `split("…")` or `rect(…)`: the name is `t` alone.
        let calls = template.match_indices("t(\"").filter(|(at, _)| {
            !template[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '-')
        });
        calls.filter_map(|(at, call)| template[at + call.len()..].split('"').next())
    });
    let texts: Vec<&str> = texts.collect();
    assert!(texts.len() > 60, "{}", texts.len());
    let missing: Vec<&&str> = (texts.iter())
        .filter(|text| !MESSAGES.contains_key(**text))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Number of texts of `tr!` and `plural!` that have no Russian one: reports in Russian show these in English. Whoever adds a
/// text and knows no Russian raises it.
const UNTRANSLATED: usize = 0;

/// Returns the string literals at the beginning of the arguments of each call of a macro in a source file: with `skip` 0 the
/// first one, with 1 the second.
fn literals(source: &str, call: &str, skip: usize) -> Vec<String> {
    let calls = source.match_indices(call).filter(|(at, _)| {
        !source[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '`')
    });
    let literal = |(at, _): (usize, &str)| {
        let mut quoted = source[at + call.len()..].split('"');
        let mut literals = Vec::new();
        let mut before = quoted.next()?;
        while literals.len() <= skip {
            // A text itself, and not one within its arguments.
            if skip == 0 && !before.trim().is_empty() {
                return None;
            }
            let mut text = quoted.next()?.to_owned();
            while text.ends_with('\\') {
                text.push('"');
                text.push_str(quoted.next()?);
            }
            literals.push(text);
            before = quoted.next()?;
        }
        literals.pop()
    };
    calls
        .filter_map(literal)
        .map(|text| text.replace("\\n", "\n").replace("\\\"", "\""))
        .collect()
}

fn sources(directory: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !path.ends_with("language/tests.rs") {
            let source = std::fs::read_to_string(&path).expect("a source file");
            let code = source
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            found.push(code.collect::<Vec<&str>>().join("\n"));
        }
    }
}

#[test]
fn texts_without_a_russian_one_are_counted() {
    let mut files = Vec::new();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&directory, &mut files);
    let texts = files.iter().flat_map(|source| {
        let counted = literals(source, "plural!(", 1);
        literals(source, "tr!(", 0).into_iter().chain(counted)
    });
    let texts: Vec<String> = texts.collect();
    assert!(texts.len() > 350, "{}", texts.len());
    let missing = texts
        .iter()
        .filter(|text| !MESSAGES.contains_key(text.as_str()));
    let missing: Vec<&String> = missing.collect();
    assert_eq!(missing.len(), UNTRANSLATED, "{missing:#?}");
}

#[test]
fn a_text_without_a_russian_one_stays_in_english() {
    let shown = |count: u64| {
        with(Language::Russian, || {
            let counted = plural!(count, "{} wombat", "{} wombats");
            tr!("in the burrow: {}", counted)
        })
    };
    assert_eq!(
        [shown(1), shown(5)],
        ["in the burrow: 1 wombat", "in the burrow: 5 wombats"]
    );
}
