//! Order and merging of kubeconfig files.

use kubewright_net::config::{ConfigError, EnvironmentVariables, Kubeconfig, LoadingRules};

use crate::directory::Directory;

const FIRST: &str = "
current-context: red
clusters: [{name: red, cluster: {server: 'https://red.first'}}]
users: [{name: admin, user: {token: first}}]
contexts: [{name: red, context: {cluster: red, user: admin}}]
";
const SECOND: &str = "
current-context: blue
clusters: [{name: red, cluster: {server: 'https://red.second', tls-server-name: x}}, {name: blue, cluster: {server: 'https://blue'}}]
users: [{name: admin, user: {username: second}}]
contexts: [{name: blue, context: {cluster: blue, user: admin}}]
";

fn rules(directory: &Directory, names: &[&str]) -> LoadingRules {
    let list = std::env::join_paths(names.iter().map(|name| directory.path(name))).expect("no colons in names");
    let variables = [
        ("KUBECONFIG", list.to_string_lossy().into_owned()),
        ("HOME", directory.root().to_string_lossy().into_owned()),
    ];
    LoadingRules::from_environment(&EnvironmentVariables::of(variables))
}

// KC-2
#[test]
fn of_entries_with_one_name_the_first_counts_as_a_whole() {
    let directory = Directory::new();
    directory.write("a", FIRST);
    directory.write("b", SECOND);
    let merged = rules(&directory, &["a", "b"]).load().expect("both are fine");
    assert_eq!(merged.current_context.as_deref(), Some("red"));
    assert_eq!(merged.clusters["red"].server.as_deref(), Some("https://red.first"));
    assert_eq!(merged.clusters["red"].tls_server_name, None, "nothing is mixed in from the second file");
    assert_eq!(merged.users["admin"].username, None);
    assert_eq!(merged.clusters["blue"].origin, Some(directory.path("b")));
    assert_eq!(merged.contexts.len(), 2);

    let merged = rules(&directory, &["b", "a"]).load().expect("both are fine");
    assert_eq!(merged.current_context.as_deref(), Some("blue"));
    assert_eq!(merged.clusters["red"].server.as_deref(), Some("https://red.second"));
}

// KC-1
#[test]
fn missing_files_are_skipped_and_duplicates_merged_once() {
    let directory = Directory::new();
    directory.write("a", FIRST);
    let list = rules(&directory, &["missing", "a", "a", "also-missing"]);
    assert_eq!(list.files().len(), 3);
    assert_eq!(list.load().expect("one exists").clusters.len(), 1);
    assert!(rules(&directory, &["missing"]).load().expect("nothing is no error").is_empty());
}

// KC-1
#[test]
fn without_a_list_the_home_directory_counts() {
    let directory = Directory::new();
    directory.write(".kube/config", SECOND);
    let home = [("HOME", directory.root().to_string_lossy().into_owned())];
    let loaded = LoadingRules::from_environment(&EnvironmentVariables::of(home)).load().expect("it is fine");
    assert_eq!(loaded.current_context.as_deref(), Some("blue"));
    directory.write("a", FIRST);
    let loaded = rules(&directory, &["a"]).load().expect("it is fine");
    assert!(!loaded.clusters.contains_key("blue"), "the home directory does not count beside a list");
}

// KC-1
#[test]
fn an_explicit_file_must_exist_and_is_not_merged() {
    let directory = Directory::new();
    let file = directory.write("a", FIRST);
    assert_eq!(LoadingRules::explicit(&file).load().expect("it is fine").clusters.len(), 1);
    let error = LoadingRules::explicit(directory.path("missing")).load().expect_err("it does not exist");
    assert!(matches!(error, ConfigError::Read { .. }) && error.to_string().contains("missing"));
    let empty = directory.write("empty", "");
    assert_eq!(LoadingRules::explicit(empty).load().expect("nothing is no error"), Kubeconfig::default());
}

// KC-1
#[test]
fn unreadable_files_are_named_and_the_others_are_merged() {
    let directory = Directory::new();
    directory.write("bad-one", "a: [");
    directory.write("good", FIRST);
    directory.write("bad-two", "clusters: [{name: a, cluster: {server: 1}}]");
    let list = rules(&directory, &["bad-one", "good", "bad-two"]);
    let error = list.load().expect_err("two are bad").to_string();
    assert!(
        error.contains("bad-one") && error.contains("bad-two") && error.contains("clusters[\"a\"].server"),
        "{error}"
    );
    let (merged, errors) = list.load_partially();
    assert_eq!((merged.clusters.len(), errors.len()), (1, 2));
}

// KC-3
#[test]
fn relative_paths_start_at_the_file_that_has_them() {
    let directory = Directory::new();
    let entry = "
clusters: [{name: N, cluster: {server: 'https://a', certificate-authority: ca.pem}}]
users: [{name: N, user: {client-certificate: ./c.pem, client-key: ../k.pem, tokenFile: /abs/token, exec: {command: bin/get}}},
  {name: bare-N, user: {exec: {command: get}}}]
";
    directory.write("one/config", entry.replace('N', "one"));
    directory.write("two/config", entry.replace('N', "two"));
    let merged = rules(&directory, &["one/config", "two/config"]).load().expect("both are fine");
    for name in ["one", "two"] {
        let (cluster, user) = (&merged.clusters[name], &merged.users[name]);
        assert_eq!(cluster.certificate_authority, Some(directory.path(name).join("ca.pem")));
        assert_eq!(user.client_certificate, Some(directory.path(name).join("c.pem")));
        assert_eq!(user.client_key, Some(directory.path(name).join("../k.pem")));
        assert_eq!(user.token_file, Some("/abs/token".into()));
        let command = |user: &str| merged.users[user].exec.as_ref().and_then(|exec| exec.command.clone());
        assert_eq!(command(name).map(Into::into), Some(directory.path(name).join("bin/get")));
        assert_eq!(command(&format!("bare-{name}")).as_deref(), Some("get"));
    }
}
