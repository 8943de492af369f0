//! The resource usage of simulated containers.

use kubewright_api::core::v1::{Container, ContainerStatus, Pod};
use kubewright_core::{Quantity, Str};

use crate::behaviour::{Amount, Behaviour};

/// CPU usage in millicores without an annotation.
const IDLE_MILLICORES: i64 = 1;
/// Memory usage in bytes without an annotation.
const IDLE_MEMORY: i64 = 10 << 20;

/// The simulated resource usage of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUsage {
    /// The name of the container.
    pub container: Str,
    /// CPU usage in cores.
    pub cpu: Quantity,
    /// Memory usage (working set) in bytes.
    pub memory: Quantity,
}

/// The simulated usage of each running container, sidecars first.
///
/// Empty unless the pod runs. Without annotations a container uses 1m CPU and 10Mi memory. A
/// percentage without a request counts as absent.
pub fn usage(pod: &Pod) -> Vec<ContainerUsage> {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return Vec::new() };
    let sidecars = spec.init_containers.iter().zip_running(&status.init_container_statuses);
    let containers = spec.containers.iter().zip_running(&status.container_statuses);
    sidecars.chain(containers).map(|container| usage_of(pod, container)).collect()
}

/// Pairs containers with their states.
trait ZipRunning<'a>: Iterator<Item = &'a Container> + Sized {
    /// The containers that run.
    fn zip_running(self, statuses: &'a [ContainerStatus]) -> impl Iterator<Item = &'a Container> {
        self.filter(|container| {
            let status = statuses.iter().find(|status| status.name == container.name);
            status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
        })
    }
}

impl<'a, I: Iterator<Item = &'a Container>> ZipRunning<'a> for I {}

fn usage_of(pod: &Pod, container: &Container) -> ContainerUsage {
    let behaviour = Behaviour::of(pod, &container.name);
    let request = |resource: &str| container.resources.as_ref()?.requests.get(resource);
    let amount = |amount: Option<Amount>, resource: &str| match amount? {
        Amount::Percent(percent) => Some(share_of(request(resource)?, percent)),
        Amount::Quantity(quantity) => Some(quantity),
    };
    ContainerUsage {
        container: container.name.clone(),
        cpu: amount(behaviour.cpu_usage, "cpu").unwrap_or_else(|| Quantity::from_scaled(IDLE_MILLICORES, -3)),
        memory: amount(behaviour.memory_usage, "memory").unwrap_or_else(|| Quantity::from(IDLE_MEMORY)),
    }
}

/// A percentage of a request, in thousandths for small requests and in units for large ones.
fn share_of(request: &Quantity, percent: f64) -> Quantity {
    let amount = request.to_f64() * percent / 100.0;
    let format = request.format();
    // Go's quantities print thousandths as `250m`; bytes have none.
    let quantity = if amount < 1e6 {
        Quantity::from_scaled((amount * 1000.0).round() as i64, -3)
    } else {
        Quantity::from(amount.round() as i64)
    };
    quantity.with_format(format)
}

#[cfg(test)]
mod tests {
    use kubewright_core::Decoder;
    use kubewright_core::json::Reader;

    use super::*;

    fn pod(annotations: &str) -> Pod {
        let text = format!(
            r#"{{"metadata":{{"name":"web","annotations":{annotations}}},
            "spec":{{"initContainers":[{{"name":"setup"}},{{"name":"proxy","restartPolicy":"Always"}}],
              "containers":[{{"name":"main","resources":{{"requests":{{"cpu":"500m","memory":"64Mi"}}}}}},{{"name":"idle"}}]}},
            "status":{{"initContainerStatuses":[{{"name":"setup","state":{{"terminated":{{"exitCode":0}}}}}},
                {{"name":"proxy","state":{{"running":{{}}}}}}],
              "containerStatuses":[{{"name":"main","state":{{"running":{{}}}}}},{{"name":"idle","state":{{"running":{{}}}}}}]}}}}"#
        );
        let (mut decoder, mut pod) = (Decoder::default(), Pod::default());
        Reader::new(text.as_bytes(), &mut decoder).message(&mut pod).expect("a valid pod");
        pod
    }

    fn shown(pod: &Pod) -> Vec<String> {
        usage(pod).iter().map(|usage| format!("{} {} {}", usage.container, usage.cpu, usage.memory)).collect()
    }

    #[test]
    fn running_containers_use_what_annotations_say() {
        assert_eq!(shown(&pod("{}")), ["proxy 1m 10485760", "main 1m 10485760", "idle 1m 10485760"]);
        let annotated = pod(r#"{"kubewright.dev/cpu-usage":"80%","kubewright.dev/memory-usage":"50%",
            "cpu-usage.kubewright.dev/idle":"2","memory-usage.kubewright.dev/proxy":"5Mi"}"#);
        assert_eq!(shown(&annotated), ["proxy 1m 5Mi", "main 400m 32Mi", "idle 2 10485760"]);
    }

    #[test]
    fn a_malformed_or_negative_usage_counts_as_absent() {
        let annotated = pod(r#"{"kubewright.dev/cpu-usage":"-5","kubewright.dev/memory-usage":"x%"}"#);
        assert_eq!(shown(&annotated)[1], "main 1m 10485760");
        assert_eq!(usage(&Pod::default()), []);
    }
}
