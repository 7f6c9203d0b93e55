//! Makes a table of the Russian texts in `src/language/russian`, which are files of gettext.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = "src/language/russian";
    println!("cargo::rerun-if-changed={directory}");
    let mut rows = Vec::new();
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "po") {
            rows.extend(rows_of(&fs::read_to_string(path)?));
        }
    }
    // The same table whatever the order of the files.
    rows.sort();
    let table = format!("&[\n{}\n]", rows.join("\n"));
    fs::write(Path::new(&env::var("OUT_DIR")?).join("russian.rs"), table)?;
    Ok(())
}

/// Returns the entries of a file as rows of Rust: context, English text, forms. Quoted texts are the same in both
/// languages; a text may go on in the next lines.
fn rows_of(file: &str) -> Vec<String> {
    // The first entry is the header of the format.
    let entries = file.split("\n\n").skip(1);
    let row = |entry: &str| {
        let mut fields: Vec<(&str, String)> = Vec::new();
        for line in entry.lines().filter(|line| !line.starts_with('#')) {
            match (line.split_once(' '), fields.last_mut()) {
                (_, Some((_, text))) if line.starts_with('"') => {
                    text.pop();
                    *text += &line[1..];
                }
                (Some((key, text)), _) => fields.push((key, text.to_owned())),
                (None, _) => {}
            }
        }
        let field = |name: &str| fields.iter().find(|(key, _)| *key == name);
        let (_, english) = field("msgid")?;
        let context = field("msgctxt").map_or("\"\"", |(_, text)| text);
        // The plural form in English is the same as `msgid`.
        let forms = fields.iter().filter(|(key, _)| key.starts_with("msgstr"));
        let forms: Vec<&str> = forms.map(|(_, text)| text.as_str()).collect();
        Some(format!("({context}, {english}, &[{}]),", forms.join(", ")))
    };
    entries.filter_map(row).collect()
}
