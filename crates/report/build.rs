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
/// languages.
fn rows_of(file: &str) -> Vec<String> {
    // The first entry is the header of the format.
    let entries = file.split("\n\n").skip(1);
    let row = |entry: &str| {
        let (mut context, mut english, mut forms) = ("\"\"", "", Vec::new());
        for line in entry.lines() {
            match line.split_once(' ') {
                Some(("msgctxt", text)) => context = text,
                Some(("msgid", text)) => english = text,
                Some((key, text)) if key.starts_with("msgstr") => forms.push(text),
                // A comment, or the plural, which is the same as `msgid`.
                _ => {}
            }
        }
        format!("({context}, {english}, &[{}]),", forms.join(", "))
    };
    entries.map(row).collect()
}
