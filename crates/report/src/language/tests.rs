use std::time::Duration;

use regatta_model::{
    Argument, BitRate, Bytes, Impairment, Link, METRICS, Outcome, Part, Ratio, STACK_FACTS,
    Spacing, Warning, fact as facts, metric, phrase, reason, template::placeholders as names_in,
    warning as made,
};

use super::*;

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
    let in_russian = |english: &str| with(Language::Russian, || quantity(english));
    assert_eq!(in_russian("1.5 ms"), "1,5 мс");
    assert_eq!(in_russian("2 min 5 s"), "2 мин 5 с");
    assert_eq!(in_russian("± 2 ms"), "± 2 мс");
    assert_eq!(in_russian("lab.2"), "lab.2");
    let number = with(Language::Russian, || crate::format::number(4.9));
    assert_eq!(number, "4,90");
    assert_eq!(crate::format::number(4.9), "4.90");
}

#[test]
fn every_impairment_is_described_in_russian() {
    let mut link = Link::default();
    for impairment in Impairment::ALL {
        *impairment.of_mut(&mut link) = Ratio(0.5);
    }
    let particulars = link.particulars();
    // The loss has a place of its own.
    assert_eq!(particulars.len(), Impairment::ALL.len() - 1);
    for it in particulars {
        let shown = with(Language::Russian, || particular(&it));
        let is_russian = shown.chars().any(|c| ('а'..='я').contains(&c));
        assert!(is_russian, "{shown}");
    }
}

#[test]
fn values_of_sweeps_are_named_by_their_keys() {
    let sweep = |part, key: &str| Sweep {
        part,
        key: key.to_owned(),
        unit: None,
        scale: Spacing::Linear,
        zip: None,
        values: Vec::new(),
    };
    let shown = |part, key: &str, value: &str| {
        let sweep = sweep(part, key);
        let shown = || with_key(&sweep, &swept(value));
        [shown(), with(Language::Russian, shown)]
    };
    assert_eq!(
        shown(Part::Condition, "loss", "0.5 %"),
        ["0.5 % loss", "потери 0,5 %"]
    );
    assert_eq!(
        shown(Part::Condition, "queue", "50 packets"),
        ["queue 50 packets", "очередь 50 пакетов"]
    );
    assert_eq!(
        shown(Part::Workload, "size", "1.5 MB"),
        ["size 1.5 MB", "объём 1,5 МБ"]
    );
}

#[test]
fn settings_of_a_path_are_phrases() {
    let shown = |phrase| with(Language::Russian, || render(&phrase));
    let rate = phrase::rate_of_trace("lte", BitRate(12_000_000));
    assert_eq!(shown(rate), "трасса `lte`, в среднем 12 Мбит/с");
    let limits = [1, 2, 5].map(|count| shown(phrase::queue_limit(QueueSize::Packets(count))));
    assert_eq!(limits, ["1 пакет", "2 пакета", "5 пакетов"]);
}

#[test]
fn a_warning_is_rendered_in_the_language_of_the_report() {
    let english = made::deadline_reached(
        Duration::from_millis(125_000),
        phrase::part_of(Bytes(950_456), Bytes(1_000_000)),
        phrase::fewer(Argument::option("--requests")),
    );
    let shown = with(Language::Russian, || warning(&english));
    assert_eq!(
        [&*shown.message, &*shown.hint],
        [
            "передача остановлена по истечении предельного времени 2 мин 5 с; измерено доставленное к этому моменту: 950,456 кБ из 1 МБ",
            "задайте больший `--deadline` или задайте меньше `--requests`"
        ]
    );
    assert_eq!(warning(&english), english);
    let part = phrase::deviation(
        "forward_loss_ratio",
        Ratio(0.0213).into(),
        Ratio(0.01).into(),
    );
    let off = made::path_off("c.1", vec![part.clone(), part]);
    let shown = with(Language::Russian, || warning(&off));
    assert_eq!(
        shown.message,
        "путь `c.1` при проверке был вне допуска: `forward_loss_ratio` составило 2,13 % вместо 1 %; `forward_loss_ratio` составило 2,13 % вместо 1 %"
    );
    let damaged = [1, 3, 5].map(|count| {
        let damaged = made::messages_corrupted(count);
        with(Language::Russian, || warning(&damaged)).message
    });
    assert_eq!(
        damaged,
        [
            "1 сообщение пришло повреждённым",
            "3 сообщения пришли повреждёнными",
            "5 сообщений пришли повреждёнными"
        ]
    );
}

#[test]
fn a_warning_of_sentences_is_shown_as_it_is_stored() {
    let stored = Warning::of_texts(
        "path_out_of_tolerance",
        "9.5 % of the packets left the emulated path more than 1.5 ms late",
        "leave the machine alone during the run",
    );
    assert_eq!(with(Language::Russian, || warning(&stored)), stored);
}

#[test]
fn a_reason_is_rendered_in_the_language_of_the_report() {
    let late = reason::path_far_too_late(Ratio(0.305), Duration::from_micros(1500));
    let silent = reason::no_answer(
        phrase::receiver(),
        "b",
        Duration::from_secs(30),
        reason::the_trial(),
    );
    let closed = reason::chain(vec![
        reason::cannot_connect("10.0.0.2").into(),
        "Connection refused (os error 111)".into(),
    ]);
    let hint = reason::load_sctp();
    let russian = |text: Text| with(Language::Russian, || shown(&text));
    assert_eq!(
        [
            russian(late.into()),
            russian(silent.into()),
            russian(closed),
            russian(hint.into())
        ],
        [
            "путь был далеко за пределами допуска: 30,5 % пакетов покинули его с опозданием больше 1,5 мс",
            "нет ответа получателя на хосте `b` за 30 с прогона",
            "нельзя соединиться с `10.0.0.2`: Connection refused (os error 111)",
            "выполните `modprobe sctp` от имени root; или задайте `--bed uml`, в его ядре он есть; или возьмите `sctp-userspace`",
        ]
    );
    // What another program has said is shown as it is.
    assert_eq!(
        russian("no route to `lab-2` in 1.5 s".into()),
        "no route to `lab-2` in 1.5 s"
    );
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
fn warnings_in_russian_have_no_english_words() {
    let names = [
        "B",
        "BBR",
        "BDP",
        "CAKE",
        "CONFIG",
        "CRC",
        "CUBIC",
        "CoDel",
        "DATAGRAM",
        "DELAYED",
        "DSCP",
        "DualPI",
        "ECN",
        "ECT",
        "FQ",
        "PIE",
        "Debian",
        "Ethernet",
        "INFO",
        "INIT",
        "IP",
        "IPv",
        "Linux",
        "MPTCP",
        "MTU",
        "QUIC",
        "RCVBUF",
        "RED",
        "RFC",
        "Regatta",
        "Retry",
        "SACK",
        "SCTP",
        "SO",
        "SYN",
        "TCP",
        "TLS",
        "UDP",
        "WDT",
        "What",
        "Wireshark",
        "a",
        "commit",
        "connect",
        "docs",
        "drivers",
        "external",
        "iptables",
        "macvlan",
        "may",
        "md",
        "netem",
        "noq",
        "offload",
        "panic",
        "program",
        "root",
        "tell",
        "uml",
    ];
    for template in Template::all() {
        for part in [TemplatePart::Message, TemplatePart::Hint] {
            for text in forms_of_template(template, part).into_iter().flatten() {
                let words: String = text
                    .split('{')
                    .map(|part| part.split_once('}').map_or(part, |(_, rest)| rest))
                    .collect();
                let untranslated = latin_words(&words, &names);
                assert!(untranslated.is_empty(), "{untranslated:?} in `{text}`");
            }
        }
    }
}

#[test]
fn facts_are_in_russian() {
    let russian = |value: Text| with(Language::Russian, || fact(&value));
    let acknowledged = facts::every_second_packet_later(Duration::from_millis(40));
    let bed = phrase::netem(phrase::netem_between_hosts(), "6.12.3", phrase::seeded());
    assert_eq!(
        [
            russian(facts::not_applicable(facts::udp_has_none()).into()),
            russian(facts::part_of_packets(Argument::decimal(9.9, 1)).into()),
            russian(acknowledged.into()),
            russian("none".into()),
            russian(phrase::in_virtual_time("6.12.3", bed.into()).into()),
        ],
        [
            "неприменимо: у UDP этого нет",
            "9,9 пакетов",
            "каждый второй пакет или через 40 мс; сначала каждый пакет",
            "нет",
            "uml, Linux 6.12.3, виртуальное время: пространства имён сети, netem между хостами (Linux 6.12.3, с начальным значением)",
        ]
    );
    // What another program says of itself is not translated.
    assert_eq!(
        russian("fixed, no more than that".into()),
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
            assert!(!form.is_empty());
            let part = match *context {
                "message" => TemplatePart::Message,
                "hint" => TemplatePart::Hint,
                _ => {
                    // A form for one may say the number in words.
                    assert_eq!(placeholders(form), placeholders(english), "{english}");
                    continue;
                }
            };
            let template = Template::find(english).unwrap_or_else(|| panic!("no `{english}`"));
            let named = |text| names_in(text).collect::<std::collections::BTreeSet<&str>>();
            assert_eq!(named(form), named(template.english(part)), "{english}");
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

/// Number of texts of `tr!` and `plural!` and of templates of warnings that have no Russian one: reports in Russian show these in English. Whoever adds a
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
    let templates = Template::all().flat_map(|template| {
        let parts = [TemplatePart::Message, TemplatePart::Hint];
        parts.map(|part| (template, part, template.english(part)))
    });
    // A text without words is the same in every language.
    let has_words = |text: &str| {
        let outside = text.split('`').step_by(2).collect::<String>();
        let mut parts = outside.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.filter_map(|part| Some(part.split_once('}')?.1));
        (first + &rest.collect::<String>()).contains(char::is_alphabetic)
    };
    let untranslated = templates.filter(|(template, part, text)| {
        has_words(text) && forms_of_template(template, *part).is_none()
    });
    let untranslated =
        untranslated.map(|(template, part, _)| format!("{part:?} {}", template.name));
    let missing: Vec<String> = missing.cloned().chain(untranslated).collect();
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
