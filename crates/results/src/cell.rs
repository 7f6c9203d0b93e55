//! Cells of CSV files.

/// Formats a text as a cell that no spreadsheet takes for a formula: with `'` before a text that
/// begins like one, unless it is a number.
#[must_use]
pub fn cell(text: String) -> String {
    if is_like_a_formula(&text) {
        format!("'{text}")
    } else {
        text
    }
}

/// Whether a spreadsheet takes a text for a formula.
pub(crate) fn is_like_a_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err()
}
