//! Cells of CSV files.

/// Formats a text as a cell that no spreadsheet takes for a formula: with `'` before a text that
/// begins like one, unless it is a number.
pub(crate) fn cell(text: String) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err() {
        format!("'{text}")
    } else {
        text
    }
}
