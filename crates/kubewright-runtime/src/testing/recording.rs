//! Records the requests of a test, from which `kubewright rbac --from-test` derives a role.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubewright_apiserver::{ApiServer, AuditLog, AuditLogOptions, AuditPolicy, AuthorizationMode, AuthorizationModes};

/// Names the directory of audit logs.
const VARIABLE: &str = "KUBEWRIGHT_AUDIT_DIR";

/// Each request once, without objects.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
- level: Metadata
";

/// Lets the server record its requests, if the environment asks for it.
pub(super) fn configure(server: ApiServer) -> ApiServer {
    match std::env::var_os(VARIABLE) {
        Some(directory) => recorded(server, Path::new(&directory)),
        None => server,
    }
}

/// Everything is allowed, so that a program gets past the first permission that its role lacks.
///
/// # Panics
/// If the log cannot be opened: a role of half of the requests would be wrong.
fn recorded(server: ApiServer, directory: &Path) -> ApiServer {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    let mut options = AuditLogOptions::default();
    options.path = directory.join(format!("{}-{number}.audit", std::process::id()));
    let log = AuditLog::open(options).unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
    let policy = AuditPolicy::from_yaml(POLICY).expect("the policy above is valid");
    let modes = AuthorizationModes::new([AuthorizationMode::AlwaysAllow]);
    server.audit(policy, [log.into()]).authorization_modes(modes)
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::ConfigMap;
    use kubewright_client::Api;
    use kubewright_core::options::ListOptions;

    use super::*;
    use crate::testing::TestCluster;

    #[tokio::test]
    async fn requests_of_a_service_account_without_a_role_are_allowed_and_recorded() {
        let directory = std::env::temp_dir().join(format!("kubewright-recording-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let server = recorded(ApiServer::in_memory(), &directory).start().await.unwrap();
        let cluster = TestCluster::over(server);
        let manager = cluster.manager_of("shop-system", "shop");
        Api::<ConfigMap>::namespaced(manager.client(), "default").list(&ListOptions::default()).await.unwrap();
        let logs = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
        let text: String = logs.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let list = text.lines().find(|line| line.contains("\"resource\":\"configmaps\"")).expect("it was recorded");
        assert!(list.contains("\"verb\":\"list\"") && list.contains("manager"), "{list}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
