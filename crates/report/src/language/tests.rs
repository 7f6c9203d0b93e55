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
    // One that the table does not have keeps its words.
    assert_eq!(
        russian("no route to `lab-2` in 1.5 s"),
        "no route to `lab-2` in 1.5 s"
    );
    assert_eq!(russian("loss-5 and h2"), "loss-5 and h2");
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
    for (english, forms) in russian::TABLES.iter().copied().flatten() {
        assert!(seen.insert(*english), "`{english}` is there twice");
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
        assert!(MESSAGES.contains_key(&*outcome.in_words()), "{outcome:?}");
    }
}

#[test]
fn every_text_of_the_templates_has_a_russian_one() {
    let templates = [
        include_str!("../html/report.html"),
        include_str!("../html/head.html"),
        include_str!("../html/controls.html"),
        include_str!("../pdf/report.typ"),
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
