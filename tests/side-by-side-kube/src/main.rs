//! Runs one of the programs of kube-rs in `examples/side-by-side`.
//!
//! Each `kube.rs` is a program of its own, with `main`. They are modules here so that they
//! are compiled and linked once.

use std::process::{ExitCode, Termination};

/// Declares a module for each program, and a function that runs one by the name of its folder.
macro_rules! programs {
    ($($module:ident: $folder:literal),* $(,)?) => {
        $(mod $module {
            include!(concat!("../../../examples/side-by-side/", $folder, "/kube.rs"));

            pub fn run() -> std::process::ExitCode {
                std::process::Termination::report(main())
            }
        })*

        fn run(folder: &str) -> Result<ExitCode, String> {
            match folder {
                $($folder => Ok($module::run()),)*
                _ => Err(format!("SIDE_BY_SIDE is {folder:?}, which is not the folder of a program")),
            }
        }
    };
}

programs! {
    list_pods: "01-list-pods",
    watch_pods: "02-watch-pods",
    create_and_delete: "03-create-and-delete",
    patch: "04-patch",
    server_side_apply: "05-server-side-apply",
    retry_on_conflict: "06-retry-on-conflict",
    paged_list: "07-paged-list",
    wait: "08-wait",
    scale: "09-scale",
    evict: "10-evict",
    dynamic_client: "11-dynamic-client",
    discovery: "12-discovery",
    metadata: "13-metadata",
    impersonation: "14-impersonation",
    informer: "15-informer",
    shared_informer_factory: "16-shared-informer-factory",
    index: "17-index",
    work_queue: "18-work-queue",
    custom_resource: "19-custom-resource",
    owned_deployment: "20-owned-deployment",
    mapped_watch: "21-mapped-watch",
    predicates: "22-predicates",
    requeue_after: "23-requeue-after",
    finalizer: "24-finalizer",
    status_conditions: "25-status-conditions",
    events: "26-events",
    validating_webhook: "28-validating-webhook",
    mutating_webhook: "29-mutating-webhook",
    metrics: "31-metrics",
}

fn main() -> ExitCode {
    match run(&std::env::var("SIDE_BY_SIDE").unwrap_or_default()) {
        Ok(code) => code,
        Err(error) => Err::<(), _>(error).report(),
    }
}

#[cfg(test)]
mod test {
    include!("../../../examples/side-by-side/30-test/kube.rs");
}
