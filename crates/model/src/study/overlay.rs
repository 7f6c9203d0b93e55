//! Options of the command line: keys that take the place of those of a study before it is read.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Part, keys::PATH_KEYS, source::ReadFile, work_keys::WORKLOAD_KEYS};
use crate::named::Named as _;

/// Keys of the command line, laid over the tables of a study.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    /// The keys as TOML: those of the study itself, in the table `condition` those of its conditions, and in the table
    /// `workload` those of its workloads.
    pub keys: &'a str,
    /// Whether the keys of a part are set in its entry of this name.
    pub applies: &'a dyn Fn(Part, &str) -> bool,
    /// Reads a file that the keys name.
    pub beside: ReadFile<'a>,
}

/// Keys that are tables of which an option sets single keys.
const TABLES: [&str; 3] = ["forward", "reverse", "probe"];

/// Keys of a condition that none of its steps has.
const OF_CONDITION: [&str; 5] = ["mtu", "tuning", "cpus", "step", "steps"];

/// Keys with others that they replace, beside those of which only one can be given. The settings of a queue's discipline
/// are those of the one that a study names.
const REPLACED: [(&str, &[&str]); 4] = [
    ("rounds", &["for"]),
    ("bed", &["hosts"]),
    ("hosts", &["bed"]),
    ("discipline", &["aqm_target", "aqm_interval", "any_ect"]),
];

/// Returns the keys whose place a key takes: its own, and those that cannot stand beside it.
fn replaced(key: &str) -> Vec<&str> {
    let of_path = PATH_KEYS.iter().map(|it| (it.name, it.instead_of));
    let of_work = WORKLOAD_KEYS.iter().map(|it| (it.name, it.instead_of));
    let exclusive = (of_path.chain(of_work)).filter_map(|(name, other)| match other? {
        other if other == key => Some(name),
        other if name == key => Some(other),
        _ => None,
    });
    let listed = REPLACED.iter().filter(|(name, _)| *name == key);
    let listed = listed.flat_map(|(_, others)| others.iter().copied());
    [key].into_iter().chain(exclusive).chain(listed).collect()
}

/// Removes a key, and those whose place it takes, from a table and from those of its directions.
fn clear(table: &mut DeTable<'_>, key: &str) {
    for name in replaced(key) {
        table.remove(name);
        for direction in ["forward", "reverse"] {
            if let Some(inner) = table_of(table, direction) {
                inner.remove(name);
            }
        }
    }
}

fn table_of<'t, 'a>(table: &'t mut DeTable<'a>, key: &str) -> Option<&'t mut DeTable<'a>> {
    match table.get_mut(key)?.get_mut() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// Sets the keys of the options in a table.
fn lay<'a>(options: &DeTable<'a>, table: &mut DeTable<'a>) {
    let (tables, values): (Vec<_>, Vec<_>) =
        (options.iter()).partition(|(key, _)| TABLES.contains(&&**key.get_ref()));
    for (key, _) in &values {
        clear(table, key.get_ref());
    }
    for (key, value) in tables {
        if !table.contains_key(&**key.get_ref()) {
            let empty = Spanned::new(value.span(), DeValue::Table(DeTable::new()));
            table.insert(key.clone(), empty);
        }
        if let (DeValue::Table(options), Some(inner)) =
            (value.get_ref(), table_of(table, key.get_ref()))
        {
            lay(options, inner);
        }
    }
    for (key, value) in values {
        table.insert(key.clone(), value.clone());
    }
}

/// Sets the keys of the options in a condition, at each of its steps; steps of the options take the place of all others.
fn lay_condition<'a>(options: &DeTable<'a>, condition: &mut DeTable<'a>) {
    let quantity = |table: &DeTable<'_>| {
        let key = table.get("steps")?.get_ref().as_table()?.get("key")?;
        key.get_ref().as_str().map(str::to_owned)
    };
    if let Some(quantity) = quantity(options) {
        clear(condition, &quantity);
    }
    if let Some(quantity) = quantity(condition)
        && options
            .keys()
            .any(|key| replaced(key.get_ref()).contains(&&*quantity))
    {
        condition.remove("steps");
    }
    let mut of_step = options.clone();
    for key in OF_CONDITION {
        of_step.remove(key);
    }
    if let Some(DeValue::Array(steps)) = condition.get_mut("step").map(Spanned::get_mut) {
        for step in steps.iter_mut() {
            if let DeValue::Table(step) = step.get_mut() {
                lay(&of_step, step);
            }
        }
    }
    lay(options, condition);
}

/// Keys of the options by the tables that have them, while a study is read.
pub(super) struct Laid<'a> {
    of_parts: Vec<(Part, DeTable<'a>)>,
    applies: &'a dyn Fn(Part, &str) -> bool,
}

impl<'a> Laid<'a> {
    /// Sets the keys of the study itself, and keeps those of its parts.
    pub fn new(
        mut options: DeTable<'a>,
        applies: &'a dyn Fn(Part, &str) -> bool,
        root: &mut DeTable<'a>,
    ) -> Self {
        let mut of_parts = Vec::new();
        for part in [Part::Condition, Part::Workload] {
            let keys = options.remove(part.as_str()).map(Spanned::into_inner);
            if let Some(DeValue::Table(keys)) = keys {
                of_parts.push((part, keys));
            }
        }
        lay(&options, root);
        Self { of_parts, applies }
    }

    /// Sets the keys of a part in its entry of this name.
    pub fn lay_over(&self, part: Part, name: &str, entry: &mut DeTable<'a>) {
        let mut of_parts = self.of_parts.iter();
        match of_parts.find(|(of, _)| *of == part && (self.applies)(part, name)) {
            Some((Part::Condition, options)) => lay_condition(options, entry),
            Some((_, options)) => lay(options, entry),
            None => {}
        }
    }
}
