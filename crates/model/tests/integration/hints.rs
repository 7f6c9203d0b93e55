//! Hints about keys of a study that are in the wrong place or have the wrong kind: they can be typed.

use regatta_model::Study;

/// Returns the hint about a study with these lines at its head, and in one direction of its path.
fn hint(head: &str, forward: &str) -> String {
    let text = format!(
        "name = \"hints\"\n{head}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n\
         [condition.forward]\n{forward}\n[[workload]]\nkind = \"bulk\"\nsize = \"1MB\"\n"
    );
    let error = Study::parse(&text, "study.toml").expect_err("a mistake");
    error.hint.to_string()
}

#[test]
fn a_key_of_both_directions_is_not_one_of_a_single_direction() {
    assert_eq!(
        hint("", "rtt = \"30ms\""),
        "`rtt` is of both directions, a key of `[[condition]]`; one of them has `delay = \"15ms\"`"
    );
}

#[test]
fn a_key_at_the_head_of_a_study_is_one_of_its_section() {
    for (line, section) in [
        ("loss = \"1%\"", "[[condition]]"),
        ("size = \"1MB\"", "[[workload]]"),
    ] {
        let hint = hint(line, "");
        assert!(
            hint.ends_with(&format!("is a key of `{section}`")),
            "{hint}"
        );
    }
}

#[test]
fn a_capture_of_another_kind_is_shown_as_a_text() {
    assert_eq!(hint("capture = true", ""), "write `capture = \"headers\"`");
}
