//! Kubeconfigs: their entries, and the files that contain them.

mod document;
mod extensions;
mod fields;
mod file;
mod loading;
mod overrides;
mod shrinking;
mod user;
mod validation;
mod writing;

pub use document::{Cluster, Context, Kubeconfig};
pub(crate) use fields::Section;
pub use loading::LoadingRules;
pub use overrides::Overrides;
pub(crate) use overrides::SelectedEntries;
pub use user::{AuthInfo, AuthProvider, ExecConfig, ExecEnv, InteractiveMode};
pub(crate) use user::{EXEC_V1, is_supported};
pub(crate) use validation::{check_cluster, check_user};
