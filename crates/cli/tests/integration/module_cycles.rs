//! Checks that the source files of a crate have no cycles of uses, and its top-level modules, each with all modules below it,
//! neither. Within one of them a module and those below it may use one another.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// Modules that each module of a crate uses, by path: `a::b`.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_of_a_crate_have_no_cycles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(&root)
        .output()
        .expect("git runs");
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let mut crates: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for file in listed.lines() {
        let Some((folder, module)) = file.split_once("/src/") else {
            continue;
        };
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
        let module = match module {
            "lib" | "main" => String::new(),
            module => module.replace('/', "::"),
        };
        crates.entry(folder).or_default().insert(module, text);
    }
    assert!(crates.len() > 20, "{listed}");
    let mut found = Vec::new();
    for (folder, files) in &crates {
        let uses = uses(files);
        for cycle in cycles(&uses)
            .into_iter()
            .chain(cycles(&of_top_level(&uses)))
        {
            found.push(format!("{folder}: {}", cycle.join(", ")));
        }
    }
    assert!(
        found.is_empty(),
        "these files use one another:\n{}",
        found.join("\n")
    );
}

/// Returns the top-level modules that each of them uses, with all modules below them.
fn of_top_level(uses: &Uses) -> Uses {
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut all = Uses::new();
    for (module, used) in uses {
        let used = used
            .iter()
            .map(|to| top(to))
            .filter(|to| *to != top(module));
        all.entry(top(module)).or_default().extend(used);
    }
    all
}

/// Returns the modules that each module uses, other than those above and below it, the root, and what only tests use.
fn uses(files: &BTreeMap<String, String>) -> Uses {
    let mut uses = Uses::new();
    let is_product =
        |module: &str| !module.is_empty() && module.split("::").all(|it| it != "tests");
    for (module, text) in files.iter().filter(|(module, _)| is_product(module)) {
        let used = uses.entry(module.clone()).or_default();
        for path in paths(text) {
            let path = absolute(module, &path);
            let longest = (1..=path.len())
                .rev()
                .map(|length| path[..length].join("::"))
                .find(|path| files.contains_key(path));
            let within =
                |one: &str, other: &str| format!("{one}::").starts_with(&format!("{other}::"));
            used.extend(longest.filter(|to| !within(to, module) && !within(module, to)));
        }
    }
    uses
}

/// Returns all paths of a file that begin with `crate`, `self` or `super`, without its tests and comments.
fn paths(text: &str) -> Vec<String> {
    let code: String = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let is_identifier_char = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for first in ["crate", "self", "super"] {
        for (at, _) in code.match_indices(&format!("{first}::")) {
            if !code[..at].ends_with(|c| is_identifier_char(c) || c == ':' || c == '$') {
                expand("", &code[at..], &mut paths);
            }
        }
    }
    paths
}

/// Adds the paths at the beginning of `code`, of which each starts with `prefix`, and returns the code after them:
/// `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand<'a>(prefix: &str, code: &'a str, paths: &mut Vec<String>) -> &'a str {
    let code = code.trim_start();
    let end = code
        .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(code.len());
    let path = format!("{prefix}{}", &code[..end]);
    let mut rest = &code[end..];
    if !path.ends_with("::") || !rest.starts_with('{') {
        paths.push(path);
        return rest;
    }
    while let Some(inner) = rest.strip_prefix(['{', ',']) {
        let inner = inner.trim_start();
        if let Some(after) = inner.strip_prefix('}') {
            return after;
        }
        // Behind a name there may be `as` and another one.
        rest = expand(&path, inner, paths);
        rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

/// Returns the names from the root of the crate on.
fn absolute(module: &str, path: &str) -> Vec<String> {
    let mut from: Vec<String> = module.split("::").map(str::to_owned).collect();
    for (position, name) in path.split("::").enumerate() {
        match name {
            "crate" if position == 0 => from.clear(),
            "self" => {}
            "super" => drop(from.pop()),
            name => from.push(name.to_owned()),
        }
    }
    from
}

/// Returns the groups of modules of which each uses every other one, by way of others or not.
fn cycles(uses: &Uses) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|module| {
            let mut reached = BTreeSet::new();
            let mut open = vec![module.as_str()];
            while let Some(next) = open.pop() {
                let used = uses.get(next).into_iter().flatten();
                open.extend(
                    used.map(String::as_str)
                        .filter(|used| reached.insert(*used)),
                );
            }
            (module.as_str(), reached)
        })
        .collect();
    let groups: BTreeSet<Vec<&str>> = reached
        .iter()
        .filter(|(module, reached)| reached.contains(*module))
        .map(|(module, to)| {
            let mutual = to.iter().filter(|other| {
                reached
                    .get(*other)
                    .is_some_and(|them| them.contains(module))
            });
            mutual.copied().collect()
        })
        .collect();
    groups.into_iter().collect()
}

#[test]
fn use_trees_are_expanded() {
    let code =
        "use super::{b::{C, d}, e as f};\n// use crate::no;\nlet x = crate::g::h(self::i());";
    let found = paths(code);
    assert_eq!(
        found,
        [
            "crate::g::h",
            "self::i",
            "super::b::C",
            "super::b::d",
            "super::e"
        ]
    );
}

#[test]
fn cycle_of_three_is_found_and_a_chain_is_not() {
    let files = [
        ("a", "use crate::b::X;"),
        ("b", "use super::c;"),
        ("c", "crate::a::y()"),
        ("d", "use crate::a; use crate::e;"),
        ("e", "use crate::e::f;"),
        ("e::f", "use super::g;"),
    ];
    let files = files.map(|(module, text)| (module.to_owned(), text.to_owned()));
    let uses = uses(&BTreeMap::from(files));
    assert_eq!(cycles(&uses), [["a", "b", "c"]]);
}
