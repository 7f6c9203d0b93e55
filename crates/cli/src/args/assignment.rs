//! Keys of a table of a study with their values, as a user writes them in one argument.

/// Key of a table with its value, as a user writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Key as in a study; a key inside a table has a dot before it.
    pub key: String,
    pub value: String,
}

/// Several assignments, separated by colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignments {
    /// Text as the user wrote it.
    pub text: String,
    pub each: Vec<Assignment>,
}

/// Example of an assignment for the keys of a direction of a path.
const OF_PATH: &str = "rate=10Mbit/s";

/// Parses `KEY=VALUE` of a direction of a path.
pub fn assignment(text: &str) -> Result<Assignment, String> {
    assignment_like(text, OF_PATH)
}

/// Parses `KEY=VALUE`; `example` is one for messages.
fn assignment_like(text: &str, example: &str) -> Result<Assignment, String> {
    let (key, value) = text
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("`{text}` is no key with its value; write `{example}`"))?;
    Ok(Assignment {
        key: key.replace('-', "_"),
        value: value.to_owned(),
    })
}

/// Parses assignments of a direction of a path that are separated by colons.
pub fn assignments(text: &str) -> Result<Assignments, String> {
    assignments_like(text, OF_PATH)
}

/// Parses assignments of a probe that are separated by colons.
pub fn assignments_of_probe(text: &str) -> Result<Assignments, String> {
    assignments_like(text, "interval=20ms")
}

fn assignments_like(text: &str, example: &str) -> Result<Assignments, String> {
    let each = text.split(':').map(|part| assignment_like(part, example));
    Ok(Assignments {
        text: text.to_owned(),
        each: each.collect::<Result<_, _>>()?,
    })
}

/// Parses the assignments of a table, the first of which stands without its key if that is `first`; `example` is one of
/// the others for messages.
pub fn table(text: &str, first: Option<&str>, example: &str) -> Result<Vec<Assignment>, String> {
    let text = first.map_or_else(|| text.to_owned(), |first| format!("{first}={text}"));
    assignments_like(&text, example).map(|table| table.each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_an_example_of_their_own_option() {
        let bursts = table("x", None, "to_bad=1%:to_good=30%").expect_err("no key");
        assert_eq!(
            bursts,
            "`x` is no key with its value; write `to_bad=1%:to_good=30%`"
        );
        let probe = assignments_of_probe("x").expect_err("no key");
        assert!(probe.ends_with("`interval=20ms`"), "{probe}");
        let path = assignments("x").expect_err("no key");
        assert!(path.ends_with("`rate=10Mbit/s`"), "{path}");
    }
}
