//! Checks that the studies shown in the documents are valid study files.

use std::collections::BTreeSet;

use regatta_model::{Study, study::StudyFile};

/// Returns the texts between a line ```` ```toml ```` or `cat > … <<'END'` and its end.
fn studies(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let end = match line {
            "```toml" => "```",
            _ if line.ends_with(".toml <<'END'") => "END",
            _ => continue,
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        found.push(body.join("\n"));
    }
    found
}

#[test]
fn every_condition_in_the_documents_is_sound() {
    let text = include_str!("../../../../docs/conditions.md");
    let found = studies(text);
    assert_eq!(found.len(), 3, "blocks of conditions");
    // Any file is a trace of one opportunity.
    let beside = |_: &str| Ok("1\n".to_owned());
    for conditions in found {
        let study = format!("[[transport]]\ndriver = \"tcp\"\n[[workload]]\n{conditions}");
        if let Err(error) = StudyFile::parse_beside(&study, "docs/conditions.md", &beside) {
            panic!("{error}");
        }
    }
}

/// Study that a claim in the documents is about.
const OF_CLAIMS: &str = "[[transport]]\ndriver = \"udp\"\n[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"sctp\"\n\
     [[transport]]\ndriver = \"quic-quinn\"\n[[condition]]\nname = \"baseline\"\n[[workload]]\nkind = \"bulk\"\n";

#[test]
fn every_study_in_the_documents_is_sound() {
    for (name, text) in [
        ("README.md", include_str!("../../../../README.md")),
        (
            "CONTRIBUTING.md",
            include_str!("../../../../CONTRIBUTING.md"),
        ),
        (
            "docs/studies.md",
            include_str!("../../../../docs/studies.md"),
        ),
    ] {
        let is_claim = |block: &String| block.trim_start().starts_with("[[claim]]");
        let (claims, found): (Vec<_>, Vec<_>) = studies(text).into_iter().partition(is_claim);
        assert_eq!(found.len(), 1, "{name} shows one study");
        assert_eq!(claims.len(), usize::from(name == "docs/studies.md"));
        let with_claim = |claim| format!("{OF_CLAIMS}{claim}");
        for study in found.into_iter().chain(claims.into_iter().map(with_claim)) {
            if let Err(error) = Study::parse(&study, name) {
                panic!("{error}");
            }
        }
    }
}

#[test]
fn the_page_about_studies_has_every_key_of_a_study() {
    let page = include_str!("../../../../docs/studies.md");
    let (_, table) = page.split_once("\n## Keys\n").expect("a section");
    let table = table.split("\n## ").next().expect("a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let written: BTreeSet<&str> = rows
        .filter_map(|row| row.split('`').next())
        .map(|key| key.trim_matches(['[', ']']))
        .collect();
    // The error of an unknown key lists those that are known.
    let text = "zzzzzzzz = 1\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n[[workload]]\n";
    let error = Study::parse(text, "s").expect_err("an unknown key");
    let hint = error.hint.to_string();
    let known: BTreeSet<&str> = hint.split('`').skip(1).step_by(2).collect();
    assert!(known.len() > 20, "{known:?}");
    assert_eq!(written, known);
}
