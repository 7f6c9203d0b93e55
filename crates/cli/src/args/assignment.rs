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

/// Parses `KEY=VALUE`.
pub fn assignment(text: &str) -> Result<Assignment, String> {
    let (key, value) = text
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("`{text}` is no key with its value; write `rate=10Mbit/s`"))?;
    Ok(Assignment {
        key: key.replace('-', "_"),
        value: value.to_owned(),
    })
}

/// Parses assignments that are separated by colons.
pub fn assignments(text: &str) -> Result<Assignments, String> {
    Ok(Assignments {
        text: text.to_owned(),
        each: text.split(':').map(assignment).collect::<Result<_, _>>()?,
    })
}

/// Parses the assignments of a table, the first of which stands without its key if that is `first`.
pub fn table(text: &str, first: Option<&str>) -> Result<Vec<Assignment>, String> {
    let text = first.map_or_else(|| text.to_owned(), |first| format!("{first}={text}"));
    assignments(&text).map(|table| table.each)
}
