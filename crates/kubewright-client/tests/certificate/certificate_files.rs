//! The file store of certificates.

use std::os::unix::fs::PermissionsExt;

use kubewright_client::certificate::{
    CertificateStore, CertificateTemplate, FileStore, IssuedCertificate, MemoryStore,
};
use rcgen::{DnType, SanType};

use crate::directory::Directory;
use crate::scripted::{Authority, Pair};

fn issued(pair: &Pair) -> IssuedCertificate {
    IssuedCertificate::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).expect("they belong together")
}

fn name(store: &impl CertificateStore) -> Option<String> {
    store.current().expect("it can be read").map(|certificate| certificate.common_name().to_owned())
}

// CM-1
#[test]
fn the_current_link_always_leads_to_the_last_certificate_with_its_key() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let pki = directory.path("pki");
    let store = FileStore::new(&pki, "agent").expect("nothing is in the way");
    assert_eq!(name(&store), None);
    // All within the same second, but each has its own file.
    for user in ["jane", "bob", "eve"] {
        store.update(&issued(&authority.sign(user))).expect("it can be written");
        assert_eq!(name(&store).as_deref(), Some(user));
        assert_eq!(name(&FileStore::new(&pki, "agent").expect("fine")).as_deref(), Some(user));
    }
    let current = store.current_path();
    assert_eq!(current, pki.join("agent-current.pem"));
    let target = std::fs::read_link(&current).expect("it is a link");
    assert!(target.is_absolute());
    let files: Vec<_> =
        std::fs::read_dir(&pki).expect("it is there").map(|entry| entry.expect("fine").path()).collect();
    assert_eq!(files.len(), 4, "three certificates and a link: {files:?}");
    for file in files.iter().filter(|file| **file != current) {
        let mode = file.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
        let stem = file.file_name().and_then(|name| name.to_str()).expect("a name").strip_prefix("agent-");
        assert!(stem.is_some_and(|stem| stem.starts_with("20") && stem.ends_with(".pem")), "{}", file.display());
    }
    // The file contains both; the parsed certificate keeps them apart.
    let read = store.current().expect("fine").expect("there is one");
    assert!(std::fs::read_to_string(&current).expect("fine").contains("PRIVATE KEY"));
    assert!(!String::from_utf8_lossy(read.certificate()).contains("PRIVATE KEY"));
    assert!(String::from_utf8_lossy(read.key().expose()).starts_with("-----BEGIN PRIVATE KEY"));
}

// CM-1
#[test]
fn an_interrupted_update_is_finished_and_foreign_files_are_not_touched() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let jane = authority.sign("jane");
    let file = directory.write("agent-2026-01-01-00-00-00.pem", format!("{}{}", jane.certificate, jane.key));
    // The process was killed after it had created the new link and removed the old one.
    std::os::unix::fs::symlink(&file, directory.path("agent-updated.pem")).expect("links can be made");
    let store = FileStore::new(directory.root(), "agent").expect("it recovers");
    assert_eq!(name(&store).as_deref(), Some("jane"));
    assert!(!directory.path("agent-updated.pem").exists());

    let before = std::fs::read_dir(directory.root()).expect("fine").count();
    std::fs::remove_file(store.current_path()).expect("it is there");
    directory.write("agent-current.pem", format!("{}{}", jane.certificate, jane.key));
    let error = store.update(&issued(&authority.sign("bob"))).expect_err("a file is in the way");
    assert!(error.to_string().contains("agent-current.pem"), "{error}");
    assert_eq!(std::fs::read_dir(directory.root()).expect("fine").count(), before, "no key was left behind");
    directory.write("other-updated.pem", "mine");
    assert!(FileStore::new(directory.root(), "other").is_err());
}

// CM-1
#[test]
fn while_none_has_been_stored_certificates_are_found_where_they_are_put_by_hand() {
    let (authority, directory) = (Authority::new(), Directory::new());
    let store = FileStore::new(directory.root(), "agent").expect("fine");
    let (jane, bob, eve) = (authority.sign("jane"), authority.sign("bob"), authority.sign("eve"));
    directory.write("agent.crt", &jane.certificate);
    assert_eq!(name(&store), None, "half a pair is none");
    directory.write("agent.key", &jane.key);
    assert_eq!(name(&store).as_deref(), Some("jane"));
    let store = store.or_files(directory.write("my.crt", &bob.certificate), directory.write("my.key", &bob.key));
    assert_eq!(name(&store).as_deref(), Some("bob"));
    store.update(&issued(&eve)).expect("fine");
    assert_eq!(name(&store).as_deref(), Some("eve"));
    directory.write("agent.key", "no key");
    directory.write("my.key", "no key");
    assert_eq!(name(&store).as_deref(), Some("eve"), "the others are not looked at");
    std::fs::remove_file(store.current_path()).expect("it is there");
    assert!(store.current().is_err(), "what is there has to be right");
}

// CM-1
#[test]
fn keys_that_do_not_fit_are_refused_and_show_nowhere() {
    let authority = Authority::new();
    let (jane, bob) = (authority.sign("jane"), authority.sign("bob"));
    let secret = jane.key.lines().nth(1).expect("a line of the key").to_owned();
    let error = IssuedCertificate::from_pem(bob.certificate.as_bytes(), jane.key.as_bytes()).expect_err("another's");
    assert!(!format!("{error:?}").contains(&secret));
    let certificate = issued(&jane);
    let store = MemoryStore::default();
    store.update(&certificate).expect("it always can");
    for shown in
        [format!("{certificate:?}"), format!("{store:?}"), format!("{:?}", certificate.to_client_certificate())]
    {
        assert!(!shown.contains(&secret) && !shown.contains("PRIVATE"), "{shown}");
    }
}

// CM-1
#[test]
fn extra_names_in_a_certificate_are_accepted_and_missing_ones_are_not() {
    let authority = Authority::new();
    let pair = authority.sign_with("jane", |params| {
        params.distinguished_name.push(DnType::OrganizationName, "developers");
        params.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 1].into()));
    });
    let certificate = issued(&pair);
    let template = CertificateTemplate::new("jane");
    assert!(certificate.satisfies(&template));
    assert!(certificate.satisfies(&template.clone().organization("developers").dns_name("localhost")));
    assert!(certificate.satisfies(&template.clone().ip_address([10, 0, 0, 1].into())));
    assert!(!certificate.satisfies(&CertificateTemplate::new("bob")));
    assert!(!certificate.satisfies(&template.clone().organization("admins")));
    assert!(!certificate.satisfies(&template.clone().dns_name("elsewhere")));
    assert!(!certificate.satisfies(&template.ip_address([10, 0, 0, 2].into())));
}
