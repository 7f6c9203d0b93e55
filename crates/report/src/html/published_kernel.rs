//! Sentence about the kernel of a publication beside those of a run.

use itertools::Itertools as _;
use regatta_model::{KERNEL_DEFAULTS, KernelDefault, KernelVersion, study::Source};

use crate::{data::RunData, language, language::tr};

/// Returns the source of a study with one more difference: the kernel of the publication beside those of the run, if both are
/// known.
pub(super) fn with_difference(data: &RunData) -> Option<Source> {
    let mut source = data.header.study.source.clone()?;
    let difference = difference(data, &source);
    source.differences.extend(difference);
    Some(source)
}

/// Describes the kernels and their defaults that move figures.
fn difference(data: &RunData, source: &Source) -> Option<String> {
    let published = source.kernel.as_ref()?;
    let hosts = data.header.hosts.values();
    let here = hosts.filter_map(|facts| facts.0.get("kernel.release"));
    let here: Vec<&String> = here.sorted().dedup().collect();
    let was = KernelVersion::of_release(published)?;
    let versions = here.iter().map(|it| KernelVersion::of_release(it));
    let versions: Vec<KernelVersion> = versions.collect::<Option<_>>()?;
    let newest = *versions.iter().max()?;
    let value = |version, default: &KernelDefault| {
        language::text(default.under(version).unwrap_or("not known")).to_owned()
    };
    let (alike, differing): (Vec<&KernelDefault>, Vec<&KernelDefault>) =
        KERNEL_DEFAULTS.iter().partition(|default| {
            versions
                .iter()
                .all(|it| default.under(*it) == default.under(was))
        });
    let differing = differing.iter().map(|default| {
        let (name, then, now) = (
            language::text(default.name),
            value(was, default),
            value(newest, default),
        );
        tr!("{}: {} then, {} here", name, then, now)
    });
    let alike = alike.iter().map(|default| {
        let (name, both) = (language::text(default.name), value(was, default));
        format!("{name}: {both}")
    });
    let (differing, alike) = (
        differing.collect_vec().join("; "),
        alike.collect_vec().join("; "),
    );
    let of = source.kernel_of.as_ref();
    let of = of.map_or_else(String::new, |system| tr!(", that of {}", system));
    let here = here.iter().join(", ");
    Some(match differing.is_empty() {
        true => tr!(
            "The publication's hosts had Linux {}{}; here Linux {} ran. The defaults that move figures are alike ({}).",
            published,
            of,
            here,
            alike
        ),
        false => tr!(
            "The publication's hosts had Linux {}{}; here Linux {} ran. Of the defaults that move figures these differ: {}. Alike are the others ({}).",
            published,
            of,
            here,
            differing,
            alike
        ),
    })
}
