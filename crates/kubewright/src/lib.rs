#![doc = include_str!("../README.md")]
// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use kubewright_api as api;
#[cfg(feature = "server")]
pub use kubewright_apiserver as apiserver;
#[cfg(feature = "cache")]
pub use kubewright_cache as cache;
#[cfg(feature = "client")]
pub use kubewright_client as client;
#[cfg(feature = "client")]
pub use kubewright_client::{Api, Client, Config, Error, Result};
#[cfg(feature = "controllers")]
pub use kubewright_controllers as controllers;
pub use kubewright_core::*;
#[cfg(feature = "dashboard")]
pub use kubewright_dashboard as dashboard;
#[cfg(feature = "apply")]
pub use kubewright_merge::apply;
#[cfg(feature = "patch")]
pub use kubewright_merge::patch;
#[cfg(feature = "recording")]
pub use kubewright_recording as recording;
#[cfg(feature = "runtime")]
pub use kubewright_runtime as runtime;
#[cfg(feature = "testing")]
pub use kubewright_runtime::replay;
#[cfg(feature = "workqueue")]
pub use kubewright_workqueue as workqueue;
#[cfg(feature = "client")]
pub use kubewright_yaml as yaml;
// Of others, what our own signatures have.
#[cfg(any(feature = "cache", feature = "metrics", feature = "workqueue"))]
pub use prometheus_client;
#[cfg(feature = "cache")]
pub use tokio_util::sync::CancellationToken;

/// The code in the book.
#[cfg(doctest)]
mod book {
    macro_rules! chapters {
        ($($name:ident: $file:literal),*) => {$(
            #[doc = include_str!(concat!("../../../docs/src/", $file))]
            mod $name {}
        )*};
    }

    chapters! {
        control_loop: "control-loop.md",
        controllers: "controllers.md",
        dashboard: "dashboard.md",
        envtest: "envtest.md",
        from_controller_runtime: "from-controller-runtime.md",
        from_kube_rs: "from-kube-rs.md",
        new_operator: "new-operator.md",
        operations: "operations.md",
        performance: "performance.md",
        readme_in_chinese: "../../README.zh.md",
        replay: "replay.md",
        simulated_pods: "simulated-pods.md",
        testing: "testing.md"
    }
}
