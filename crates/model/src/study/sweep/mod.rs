//! Sweeps: entries of a study that are made for each of several values of a key.

mod example;
mod expand;
mod range;
mod read;

use serde::{Deserialize, Serialize};

use super::keys::PATH_KEYS;
use crate::{
    metric::Unit,
    named::{Named as _, named},
};
pub(super) use expand::{Expansion, base_name};
pub(super) use range::{number_in, shown};
pub(super) use read::{Written, read_sweeps};

/// Part of a study whose entries a sweep multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Transports.
    Transport,
    /// Conditions.
    Condition,
    /// Workloads.
    Workload,
}

named!(Part: "transport" => Transport, "condition" => Condition, "workload" => Workload);

impl Part {
    /// Returns the key that names an entry of this part.
    #[must_use]
    pub const fn name_key(self) -> &'static str {
        match self {
            Self::Transport => "label",
            Self::Condition | Self::Workload => "name",
        }
    }
}

/// Spacing of the values of a sweep, and scale of the axis that shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// Equal differences.
    #[default]
    Linear,
    /// Equal ratios.
    Log,
}

named!(Spacing: "linear" => Linear, "log" => Log);

/// One value of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweptValue {
    /// The value as names show it: `0.5 %`.
    pub text: String,
    /// The value in the sweep's unit; `None` if the values are no quantities of one unit.
    pub value: Option<f64>,
}

/// One `[[sweep]]` of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Part of the study that has the key.
    pub part: Part,
    /// The key within the part: `loss`, `reverse.loss`.
    pub key: String,
    /// Unit of the values; `None` if they are no quantities of one unit.
    pub unit: Option<Unit>,
    /// Scale of the axis.
    pub scale: Spacing,
    /// Name shared by the sweeps whose values go together; `None` if this one is crossed with all
    /// others.
    pub zip: Option<String>,
    /// Values in the order of the file.
    pub values: Vec<SweptValue>,
}

impl Sweep {
    /// Returns the key with its part, as in a study: `condition.loss`.
    #[must_use]
    pub fn full_key(&self) -> String {
        format!("{}.{}", self.part.as_str(), self.key)
    }

    /// Returns the text that the command line has for values of a condition's key, and the direction before it.
    fn template(&self) -> Option<(String, &'static str)> {
        let (direction, name) = match self.key.split_once('.') {
            Some((direction @ ("forward" | "reverse"), name)) => (format!("{direction} "), name),
            _ => (String::new(), self.key.as_str()),
        };
        let known = PATH_KEYS.iter().find(|known| known.name == name)?;
        (self.part == Part::Condition && known.in_name.contains("{}"))
            .then_some((direction, known.in_name))
    }

    /// Returns the text of a value in the name of an entry: that of the command line.
    #[must_use]
    pub fn in_name(&self, value: &str) -> String {
        match (self.template(), self.part) {
            (Some((direction, template)), _) => direction + &template.replace("{}", value),
            (None, Part::Transport) => format!("{}={}", self.key, value.replace(' ', "")),
            (None, _) => format!("{} {value}", self.key),
        }
    }

    /// Returns the text of a value in a sentence, with `{}` in its place; `None` if the title of the key before it says
    /// as much.
    #[must_use]
    pub fn wording(&self) -> Option<String> {
        let (direction, template) = self.template()?;
        (template != "{}").then(|| direction + template)
    }

    /// Returns the title of an axis with the values.
    #[must_use]
    pub fn title(&self) -> String {
        self.key.replace(['_', '.'], " ")
    }
}

/// Transport, condition or workload that sweeps made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweptEntry {
    /// Part of the study that has the entry.
    pub part: Part,
    /// Name or label of the entry.
    pub name: String,
    /// Name or label in the file.
    pub base: String,
    /// Positions of the sweeps in [`Sweeps::sweeps`], and of the entry's value in each of them.
    pub at: Vec<[u32; 2]>,
}

/// Sweeps of a study, and the entries that they made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sweeps {
    /// Sweeps in the order of the file.
    pub sweeps: Vec<Sweep>,
    /// Entries in the order of the study.
    pub entries: Vec<SweptEntry>,
}

impl Sweeps {
    /// Whether the study has no sweep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sweeps.is_empty()
    }

    /// Returns the swept entry with this name.
    #[must_use]
    pub fn entry(&self, part: Part, name: &str) -> Option<&SweptEntry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.part == part && entry.name == name)
    }

    /// Returns the parameters of an entry: each sweep with its value there.
    pub fn parameters<'a>(
        &'a self,
        entry: &'a SweptEntry,
    ) -> impl Iterator<Item = (&'a Sweep, &'a SweptValue)> {
        entry.at.iter().filter_map(|[sweep, value]| {
            let sweep = self.sweeps.get(*sweep as usize)?;
            Some((sweep, sweep.values.get(*value as usize)?))
        })
    }

    /// Returns the axes: groups of positions of sweeps whose values go together.
    #[must_use]
    pub fn axes(&self) -> Vec<Vec<usize>> {
        let mut axes: Vec<Vec<usize>> = Vec::new();
        for (position, sweep) in self.sweeps.iter().enumerate() {
            let together = axes.iter_mut().find(|axis| {
                let first = axis.first().and_then(|first| self.sweeps.get(*first));
                sweep.zip.is_some() && first.is_some_and(|first| first.zip == sweep.zip)
            });
            match together {
                Some(axis) => axis.push(position),
                None => axes.push(vec![position]),
            }
        }
        axes
    }
}
