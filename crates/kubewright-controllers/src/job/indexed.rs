//! Indexed jobs: each index from `0` to `completions - 1` must succeed once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubewright_api::batch::v1::{Job, JobSpec, JobStatus};
use kubewright_api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use kubewright_core::{List, Object, Str};

use super::index_failures;
use super::tracking::is_tracked;
use crate::pods::phase;

/// The completion index, as annotation and label.
#[doc(alias = "JobCompletionIndexAnnotation")]
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The completion index, as environment variable.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Maximum length of a name prefix, to leave room for five generated letters.
#[doc(alias = "MaxGeneratedNameLength")]
const MAX_PREFIX: usize = 63 - 5;

/// The number of indexes, for an indexed job.
pub(super) fn completions(spec: &JobSpec) -> Option<i32> {
    spec.completions.filter(|_| spec.completion_mode.as_deref() == Some("Indexed"))
}

/// The index of a pod, if it has a valid one.
#[doc(alias = "getCompletionIndex")]
pub(super) fn index_of(pod: &Pod, completions: i32) -> Option<i32> {
    let index: i32 = pod.annotations().get(INDEX)?.parse().ok()?;
    (0..completions).contains(&index).then_some(index)
}

/// State of the indexes.
#[derive(Debug)]
pub(super) struct Indexes {
    pub(super) completions: i32,
    pub(super) completed: BTreeSet<i32>,
    /// Permanently failed indexes, with a limit per index.
    pub(super) failed: Option<BTreeSet<i32>>,
    /// The last failed pod of each index that awaits a retry, with a limit per index.
    pub(super) awaiting: BTreeMap<i32, Arc<Pod>>,
}

impl Indexes {
    /// Updates the indexes in the status, for an indexed job.
    pub(super) fn note(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> Option<Self> {
        let completions = completions(spec)?;
        let completed = note_completed(status, completions, pods);
        let failed = index_failures::note_failed(status, spec, completions, pods);
        let is_settled = |index| completed.contains(&index) || failed.as_ref().is_some_and(|set| set.contains(&index));
        let awaiting = index_failures::awaiting(spec, completions, is_settled, pods);
        Some(Indexes { completions, completed, failed, awaiting })
    }

    /// The lowest pending indexes without a pod, up to `count`.
    #[doc(alias = "firstPendingIndexes")]
    pub(super) fn pending<'a>(&self, pods: impl IntoIterator<Item = &'a Arc<Pod>>, count: usize) -> Vec<i32> {
        let taken: BTreeSet<i32> = pods.into_iter().filter_map(|pod| index_of(pod, self.completions)).collect();
        let is_settled = |index: &i32| {
            self.completed.contains(index) || self.failed.as_ref().is_some_and(|failed| failed.contains(index))
        };
        (0..self.completions).filter(|index| !is_settled(index) && !taken.contains(index)).take(count).collect()
    }
}

/// Records completed indexes, each once.
#[doc(alias = "calculateSucceededIndexes")]
fn note_completed(status: &mut JobStatus, completions: i32, pods: &[Arc<Pod>]) -> BTreeSet<i32> {
    let mut completed = parse(status.completed_indexes.as_deref().unwrap_or_default(), completions);
    // Released pods are in the list, unless the job was resized in between; then the index runs
    // again.
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded" && is_tracked(pod));
    completed.extend(succeeded.filter_map(|pod| index_of(pod, completions)));
    status.completed_indexes = (!completed.is_empty()).then(|| format(&completed).into());
    status.succeeded = i32::try_from(completed.len()).ok().filter(|count| *count > 0);
    completed
}

/// Surplus active pods: without an index, or with a completed or duplicate one.
pub(super) fn take_superfluous(
    active: &mut Vec<Arc<Pod>>,
    completed: &BTreeSet<i32>,
    completions: i32,
) -> Vec<Arc<Pod>> {
    let mut taken = completed.clone();
    // The oldest of several keeps its index.
    active.sort_by_key(|pod| pod.creation_timestamp());
    let (needed, superfluous) =
        active.drain(..).partition(|pod| index_of(pod, completions).is_some_and(|index| taken.insert(index)));
    *active = needed;
    superfluous
}

/// Sets the index of a pod: name, host name, annotation, label and environment.
pub(super) fn number_pod(pod: &mut Pod, job: &Job, index: i32) {
    let text = Str::from(index.to_string());
    pod.metadata.generate_name = Some(prefix(job.name(), index).into());
    pod.metadata.annotations.insert(INDEX, text.clone());
    pod.metadata.labels.insert(INDEX, text);
    let Some(spec) = &mut pod.spec else { return };
    spec.hostname = Some(format!("{}-{index}", job.name()).into());
    tell_containers(&mut spec.init_containers);
    tell_containers(&mut spec.containers);
}

/// The name prefix of pods with this index, truncated to leave room for the generated suffix.
#[doc(alias = "podGenerateNameWithIndex")]
fn prefix(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let start: String = job.chars().take(MAX_PREFIX - end.len()).collect();
    start + &end
}

fn tell_containers(containers: &mut List<Container>) {
    for container in containers.iter_mut() {
        if container.env.iter().any(|variable| variable.name == VARIABLE) {
            continue;
        }
        let field =
            ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']").into(), ..Default::default() };
        let source = EnvVarSource { field_ref: Some(field), ..Default::default() };
        container.env.push(EnvVar { name: VARIABLE.into(), value_from: Some(source.into()), ..Default::default() });
    }
}

/// Parses `1,3-5,7`; invalid parts are skipped.
pub(super) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse::<i32>().ok()?.max(0), last.parse::<i32>().ok()?.min(completions - 1)))
    };
    text.split(',').filter_map(range).flat_map(|(first, last)| first..=last).collect()
}

/// Formats `1,3-5,7`: three or more consecutive numbers as a range, as in the API.
pub(super) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = |(first, last): (i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_written_as_ranges() {
        for text in ["", "0", "0,2", "1,2", "1-3", "0,3-5,7", "1-4,8,9,11"] {
            assert_eq!(format(&parse(text, 100)), text);
        }
        assert_eq!(format(&parse("0-9,x,12", 5)), "0-4");
    }

    #[test]
    fn the_lowest_indexes_run_first_and_once() {
        let pod = |index: &str| {
            let mut pod = Pod::default();
            pod.metadata.annotations.insert(INDEX, index.into());
            Arc::new(pod)
        };
        let completed = BTreeSet::from([1]);
        let mut active = vec![pod("0"), pod("0"), pod("1"), pod("9"), pod("x"), pod("3")];
        let superfluous = take_superfluous(&mut active, &completed, 6);
        assert_eq!((active.len(), superfluous.len()), (2, 4));
        let mut indexes = Indexes { completions: 6, completed, failed: None, awaiting: BTreeMap::new() };
        assert_eq!(indexes.pending(&active, 10), [2, 4, 5]);
        assert_eq!(indexes.pending(&active, 1), [2]);
        indexes.failed = Some(BTreeSet::from([4]));
        assert_eq!(indexes.pending(&active, 10), [2, 5]);
    }

    #[test]
    fn a_long_name_is_truncated_for_the_index_and_the_generated_suffix() {
        assert_eq!(prefix("sum", 7), "sum-7-");
        let long = prefix(&"n".repeat(63), 123);
        assert!(long.len() == MAX_PREFIX && long.ends_with("n-123-"), "{long}");
    }
}
