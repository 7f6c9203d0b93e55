//! Texts of others in a page in Markdown (CommonMark, with GitHub's tables).

/// Characters that mean something inside a line.
const SPECIAL: &[char] = &[
    '\\', '`', '*', '_', '[', ']', '<', '>', '|', '#', '~', '&', '!',
];

/// Escapes a text, so that it is shown as it is, in one line.
pub fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (position, character) in one_line(text).char_indices() {
        // At its beginning a text may look like a list or a rule.
        if SPECIAL.contains(&character) || position == 0 && matches!(character, '-' | '+' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    // A link without brackets, which GitHub makes of an address.
    escaped.replace("://", ":\\//")
}

/// Returns a text as a code span.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    match text.starts_with('`') || text.ends_with('`') {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}

/// Returns Markdown as a cell of a table: also in a code span a bar would end it.
pub fn cell(markdown: &str) -> String {
    markdown.replace('|', "\\|")
}

/// Returns lines as a block of code.
pub fn block(language: &str, lines: &str) -> String {
    let fence = "`".repeat(longest_run(lines).max(2) + 1);
    format!("{fence}{language}\n{lines}\n{fence}\n")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Returns the largest number of backquotes in a row.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|character| character != '`');
    runs.map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_no_markup() {
        assert_eq!(
            text("![x](http://a/b) <script> `rm` *a*\n# b|c"),
            "\\!\\[x\\](http:\\//a/b) \\<script\\> \\`rm\\` \\*a\\* \\# b\\|c"
        );
        assert_eq!(text("- a"), "\\- a");
    }

    #[test]
    fn a_code_span_ends_where_its_text_does() {
        assert_eq!(code("a.csv"), "`a.csv`");
        assert_eq!(code("a`<b>``c"), "```a`<b>``c```");
        assert_eq!(code("`a`"), "`` `a` ``");
        assert_eq!(cell(&code("a|b")), "`a\\|b`");
    }

    #[test]
    fn a_block_ends_after_its_lines() {
        assert_eq!(block("sh", "a\n```\nb"), "````sh\na\n```\nb\n````\n");
    }
}
