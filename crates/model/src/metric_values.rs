//! Values of the metrics of one trial.

use std::{collections::BTreeMap, fmt, ops::Index, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

/// Values by the name of their metric, in the order of the names.
///
/// A sorted list without spare room: a report holds one for each of up to a million trials. Records that a reader makes
/// share their names.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(from = "BTreeMap<String, f64>")]
pub struct MetricValues(Vec<(Arc<str>, f64)>);

impl MetricValues {
    /// Returns the value of a metric.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&f64> {
        let position = self.position(name).ok()?;
        self.0.get(position).map(|(_, value)| value)
    }

    /// Returns the value of a metric, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut f64> {
        let position = self.position(name).ok()?;
        self.0.get_mut(position).map(|(_, value)| value)
    }

    /// Whether a metric has a value.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    /// Sets the value of a metric. Returns the value that it had.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: f64) -> Option<f64> {
        let name = name.into();
        match self.position(&name) {
            Ok(position) => Some(std::mem::replace(&mut self.0[position].1, value)),
            Err(position) => {
                self.0.insert(position, (name, value));
                None
            }
        }
    }

    /// Removes the value of a metric and returns it.
    pub fn remove(&mut self, name: &str) -> Option<f64> {
        let position = self.position(name).ok()?;
        Some(self.0.remove(position).1)
    }

    /// Keeps the values for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &f64) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> Iter<'_> {
        let pair: Pair = |(name, value)| (name, value);
        self.0.iter().map(pair)
    }

    /// Iterates over the names.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Returns the position of a metric, or the one at which it belongs.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

/// Access to one entry.
type Pair = fn(&(Arc<str>, f64)) -> (&str, &f64);

/// Iterator over names and values.
pub type Iter<'a> = std::iter::Map<std::slice::Iter<'a, (Arc<str>, f64)>, Pair>;

impl<'a> IntoIterator for &'a MetricValues {
    type Item = (&'a str, &'a f64);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Into<Arc<str>>> Extend<(K, f64)> for MetricValues {
    fn extend<I: IntoIterator<Item = (K, f64)>>(&mut self, values: I) {
        for (name, value) in values {
            self.insert(name, value);
        }
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, f64)> for MetricValues {
    /// Collects values; of several of one name the last one counts.
    fn from_iter<I: IntoIterator<Item = (K, f64)>>(values: I) -> Self {
        let mut all: Vec<(Arc<str>, f64)> = (values.into_iter())
            .map(|(name, value)| (name.into(), value))
            .collect();
        // Stable, so that the last one of a name stays the last.
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        all.shrink_to_fit();
        Self(all)
    }
}

impl<K: Into<Arc<str>>, const N: usize> From<[(K, f64); N]> for MetricValues {
    fn from(values: [(K, f64); N]) -> Self {
        values.into_iter().collect()
    }
}

impl<Q: AsRef<str> + ?Sized> Index<&Q> for MetricValues {
    type Output = f64;

    /// Returns the value of a metric.
    ///
    /// # Panics
    /// If the metric has no value.
    fn index(&self, name: &Q) -> &f64 {
        let name = name.as_ref();
        self.get(name)
            .unwrap_or_else(|| panic!("no value of `{name}`"))
    }
}

impl fmt::Debug for MetricValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl Serialize for MetricValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl From<BTreeMap<String, f64>> for MetricValues {
    fn from(values: BTreeMap<String, f64>) -> Self {
        values.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_changed_and_removed_by_name() {
        let mut values = MetricValues::from([("b", 2.0), ("a", 1.0), ("b", 3.0)]);
        assert_eq!(
            values.iter().collect::<Vec<_>>(),
            [("a", &1.0), ("b", &3.0)]
        );
        assert_eq!(values.insert("aa".to_owned(), 4.0), None);
        assert_eq!(values.insert("a", 5.0), Some(1.0));
        assert_eq!(values.keys().collect::<Vec<_>>(), ["a", "aa", "b"]);
        assert_eq!(values[&"aa".to_owned()], 4.0);
        assert_eq!(values.remove("aa"), Some(4.0));
        assert_eq!((values.get("aa"), values.len()), (None, 2));
    }

    #[test]
    fn json_is_that_of_a_map() {
        let values = MetricValues::from([("b", 2.0), ("a", 1.5)]);
        let json = serde_json::to_string(&values).expect("JSON");
        assert_eq!(json, r#"{"a":1.5,"b":2.0}"#);
        let read: MetricValues =
            serde_json::from_str(r#"{"b":2.0,"a":0.0,"a":1.5}"#).expect("it is read");
        assert_eq!(read, values);
        assert!(serde_json::from_str::<MetricValues>("[1]").is_err());
    }
}
