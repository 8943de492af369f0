//! Simulated kubelets.
//!
//! A simulated container runs no image. It does what annotations of its pod say ([`behaviour`]),
//! or what its command would do as far as a small shell knows it ([`plan`]). [`ClusterNetwork`]
//! answers requests to kubelets and pods: logs, exec, attach, port-forward, HTTP. [`image`] says
//! which images can be pulled, and [`ProbedContainer`] runs probes.
//!
//! ```
//! use kubewright_api::core::v1::{Container, Pod};
//! use kubewright_kubelet::image::pull_error;
//!
//! let container = Container { name: "main".into(), image: Some("app:404".into()), ..Container::default() };
//! assert!(pull_error(&Pod::default(), &container).is_some());
//! ```

pub mod behaviour;
mod container_files;
pub mod environment;
pub mod files;
pub mod image;
pub mod plan;
mod probes;
mod server;
mod shell;
mod usage;

pub use container_files::ContainerFiles;
pub use probes::ProbedContainer;
pub use server::{ClusterNetwork, ClusterView};
pub use usage::{ContainerUsage, usage};

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::Pod;
    use kubewright_core::Decoder;
    use kubewright_core::json::Reader;

    /// A pod of this JSON.
    pub(crate) fn pod(text: &str) -> Pod {
        let (mut decoder, mut pod) = (Decoder::default(), Pod::default());
        Reader::new(text.as_bytes(), &mut decoder).message(&mut pod).expect("a valid pod");
        pod
    }
}
