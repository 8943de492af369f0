//! Writing changes back to the kubeconfig files.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use kubewright_net::config::{Cluster, ConfigError, EnvironmentVariables, Kubeconfig, LoadingRules};

use crate::directory::Directory;

const FIRST: &str = "colour: blue
clusters:
- name: red
  weight: 7
  cluster: {server: 'https://red', certificate-authority: ca.pem, flavour: sweet}
- name: gone
  cluster: {server: 'https://gone'}
current-context: red
";
const SECOND: &str = "users:\n- {name: admin, user: {token: old}}\n";

fn rules(directory: &Directory) -> LoadingRules {
    let list = std::env::join_paths([directory.path("one"), directory.path("two")]).expect("no colons in names");
    LoadingRules::from_environment(&EnvironmentVariables::of([("KUBECONFIG", list.to_string_lossy().into_owned())]))
}

// KC-9
#[test]
fn an_entry_is_written_to_its_own_file_and_nothing_else_changes() {
    let directory = Directory::new();
    directory.write("one", FIRST);
    directory.write("two", SECOND);
    let edit = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.users.get_mut("admin").expect("it is there").token = Some("new".into());
    };
    rules(&directory).edit(edit).expect("it can be written");
    assert_eq!(directory.read("one"), FIRST, "the other file is left alone");
    assert!(directory.read("two").contains("token: new"));
    assert!(!directory.read("two").contains("red"));

    let edit = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.clusters.get_mut("red").expect("it is there").server = Some("https://crimson".into());
        kubeconfig.clusters.remove("gone");
        kubeconfig.clusters.insert("fresh".into(), Cluster { server: Some("https://f".into()), ..Cluster::default() });
        kubeconfig.current_context = Some("blue".into());
    };
    rules(&directory).edit(edit).expect("it can be written");
    let one = directory.read("one");
    for part in ["colour: blue", "weight: 7", "flavour: sweet", "certificate-authority: ca.pem", "https://crimson"] {
        assert!(one.contains(part), "{part} in {one}");
    }
    assert!(one.contains("https://f") && !one.contains("gone") && one.contains("current-context: blue"), "{one}");
    let again = rules(&directory).load().expect("we wrote it");
    assert_eq!(again.clusters["red"].certificate_authority, Some(directory.path("ca.pem")));
}

// KC-9
#[test]
fn the_current_context_can_be_cleared_wherever_it_is_set() {
    let directory = Directory::new();
    directory.write("one", SECOND);
    directory.write("two", FIRST);
    let clear = |kubeconfig: &mut Kubeconfig| kubeconfig.current_context = None;
    rules(&directory).edit(clear).expect("it can be written");
    assert_eq!(directory.read("one"), SECOND, "it does not name any");
    assert!(directory.read("two").contains("colour: blue"), "the rest of it stays");
    assert_eq!(rules(&directory).load().expect("we wrote it").current_context, None);

    // If several files name a current context, the second must not become effective.
    directory.write("one", "current-context: one\n");
    directory.write("two", "current-context: two\n");
    rules(&directory).edit(clear).expect("it can be written");
    assert_eq!(rules(&directory).load().expect("we wrote it").current_context, None);
}

// KC-9
#[test]
fn top_level_settings_are_written_to_the_default_file_only() {
    let directory = Directory::new();
    let one =
        "preferences: {colors: true}\nextensions: [{name: a, weight: 7, extension: 1}, {name: b, extension: 1}]\n";
    let two =
        "preferences: {colors: false}\nshape: round\nextensions: [{name: b, extension: 2}, {name: c, extension: 2}]\n";
    directory.write("one", one);
    directory.write("two", two);
    let edit = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.extensions.insert("a".into(), 9.into());
        kubeconfig.extensions.insert("d".into(), 9.into());
        kubeconfig.unknown.insert("shape", "square".into());
        kubeconfig.unknown.insert("taste", "sweet".into());
    };
    rules(&directory).edit(edit).expect("it can be written");
    assert_eq!(directory.read("two"), two, "the default file is the first");
    let changed = directory.read("one");
    for part in ["weight: 7", "shape: square", "taste: sweet", "colors: true"] {
        assert!(changed.contains(part), "{part} in {changed}");
    }
    let again = rules(&directory).load().expect("we wrote it");
    let shown: Vec<String> = again.extensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(shown, ["a=9", "b=1", "c=2", "d=9"]);
    assert_eq!(again.unknown.get("shape").map(ToString::to_string).as_deref(), Some("\"square\""));

    let edit = |kubeconfig: &mut Kubeconfig| {
        kubeconfig.extensions.remove("b");
        kubeconfig.unknown.remove("preferences");
    };
    rules(&directory).edit(edit).expect("it can be written");
    let again = rules(&directory).load().expect("we wrote it");
    assert_eq!(again.extensions.keys().collect::<Vec<_>>(), ["a", "c", "d"]);
    assert!(again.unknown.get("preferences").is_none() && again.unknown.get("shape").is_some());
}

// KC-9
#[test]
fn written_files_are_readable_only_by_their_owner() {
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("it is ours");
    let link = directory.path("link");
    std::os::unix::fs::symlink(&file, &link).expect("links can be made");
    let edit = |kubeconfig: &mut Kubeconfig| kubeconfig.current_context = Some("x".into());
    LoadingRules::explicit(&link).edit(edit).expect("it can be written");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink(), "a link stays a link");
    assert!(directory.read("config").contains("current-context: x"));

    let fresh = directory.path("deep/down/config");
    LoadingRules::explicit(&fresh).edit(edit).expect("directories are made");
    assert_eq!(std::fs::metadata(&fresh).expect("it is there").permissions().mode() & 0o777, 0o600);
    let left: Vec<_> = std::fs::read_dir(directory.path("deep/down")).expect("it is there").collect();
    assert_eq!(left.len(), 1, "neither locks nor temporary files are left");
}

// KC-9
#[test]
fn a_lock_is_respected_unless_it_is_stale() {
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    let lock = directory.write("config.lock", "");
    let kubeconfig = Kubeconfig { current_context: Some("x".into()), ..Kubeconfig::default() };
    assert!(matches!(kubeconfig.write(&file), Err(ConfigError::Locked { .. })));
    assert_eq!(directory.read("config"), SECOND);
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&lock).and_then(|file| file.set_modified(long_ago)).expect("it is ours");
    kubeconfig.write(&file).expect("the lock is stale");
    assert!(!lock.exists());
    // A lock of a process with a wrong clock: without handling, no write would be possible until
    // that time.
    let lock = directory.write("config.lock", "");
    let far_ahead = SystemTime::now() + Duration::from_secs(365 * 86_400);
    std::fs::File::options().write(true).open(&lock).and_then(|file| file.set_modified(far_ahead)).expect("it is ours");
    kubeconfig.write(&file).expect("the lock is stale");
    assert!(!lock.exists());
}

// KC-9
#[test]
fn a_stale_lock_is_removed_by_one_writer() {
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    let lock = directory.write("config.lock", "");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&lock).and_then(|file| file.set_modified(long_ago)).expect("it is ours");
    let (holders, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let edit = |kubeconfig: &mut Kubeconfig| {
        most.fetch_max(holders.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        kubeconfig.current_context = Some("x".into());
        holders.fetch_sub(1, Ordering::SeqCst);
    };
    let write = || match LoadingRules::explicit(&file).edit(edit) {
        Ok(_) => true,
        // The lock was not acquired in time.
        Err(ConfigError::Locked { file: locked }) => {
            assert_eq!(locked, file);
            false
        }
        Err(error) => panic!("{error}"),
    };
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..64).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).filter(|is_done| *is_done).count()
    });
    assert!(written > 0 && most.load(Ordering::SeqCst) == 1, "{written} have written, {most:?} at once");
    assert!(!lock.exists() && !directory.path("config.lock.lock").exists());
}

// KC-9
#[test]
fn locks_are_respected_despite_clock_skew_of_a_file_server() {
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    let lock = directory.write("config.lock", "");
    let is_over = AtomicBool::new(false);
    for is_ahead in [true, false] {
        let (first, done) = (SystemTime::now(), &is_over);
        let skew = Duration::from_secs(600);
        let touch = |lock: &std::path::Path, since: Duration| {
            let time = if is_ahead { first + skew } else { first - skew } + since;
            std::fs::File::options().write(true).open(lock).and_then(|file| file.set_modified(time))
        };
        touch(&lock, Duration::ZERO).expect("it is ours");
        done.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            // Other writers take turns, each with its own lock.
            scope.spawn(|| {
                for turn in 1.. {
                    if done.load(Ordering::Relaxed) || touch(&lock, Duration::from_millis(turn * 50)).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let kubeconfig = Kubeconfig { current_context: Some("x".into()), ..Kubeconfig::default() };
            let written = kubeconfig.write(&file);
            done.store(true, Ordering::Relaxed);
            assert!(matches!(written, Err(ConfigError::Locked { .. })), "{written:?}");
        });
        assert_eq!(directory.read("config"), SECOND);
    }
}

// KC-9
#[test]
fn a_symbolic_link_is_kept_even_if_its_target_is_missing() {
    let directory = Directory::new();
    let (first, second) = (directory.path("first"), directory.path("second"));
    std::os::unix::fs::symlink("second", &first).expect("links can be made");
    std::os::unix::fs::symlink("deep/config", &second).expect("links can be made");
    let edit = |kubeconfig: &mut Kubeconfig| kubeconfig.current_context = Some("x".into());
    LoadingRules::explicit(&first).edit(edit).expect("it can be written");
    for link in [first, second] {
        assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink(), "{}", link.display());
    }
    assert!(directory.read("deep/config").contains("current-context: x"));
    let circle = directory.path("circle");
    std::os::unix::fs::symlink(&circle, &circle).expect("links can be made");
    LoadingRules::explicit(&circle).edit(edit).expect_err("it leads nowhere");
    let other = directory.path("other");
    std::os::unix::fs::symlink(directory.path("round"), &other).expect("links can be made");
    std::os::unix::fs::symlink(&other, directory.path("round")).expect("links can be made");
    for link in [circle, other] {
        Kubeconfig::default().write(&link).expect_err("it leads nowhere");
        assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink(), "{}", link.display());
    }
}

// KC-9
#[test]
fn the_owner_of_a_file_stays_its_owner() {
    use std::os::unix::fs::{MetadataExt, chown};
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    // Only root can change the owner, so only root can keep it.
    if chown(&file, Some(4711), Some(4712)).is_err() {
        return;
    }
    let edit = |kubeconfig: &mut Kubeconfig| kubeconfig.current_context = Some("x".into());
    LoadingRules::explicit(&file).edit(edit).expect("it can be written");
    let after = std::fs::metadata(&file).expect("it is there");
    assert_eq!((after.uid(), after.gid(), after.mode() & 0o777), (4711, 4712, 0o600));
}

// KC-3, KC-9
#[test]
fn a_program_is_named_as_it_was() {
    let directory = Directory::new();
    let exec = "{command: ./bin/login, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";
    directory.write("config", format!("users:\n- {{name: jane, user: {{exec: {exec}}}}}\n"));
    let rules = LoadingRules::explicit(directory.path("config"));
    let edit = |kubeconfig: &mut Kubeconfig| {
        let exec = kubeconfig.users.get_mut("jane").and_then(|user| user.exec.as_mut()).expect("it is there");
        exec.provide_cluster_info = true;
    };
    rules.edit(edit).expect("it can be written");
    let text = directory.read("config");
    assert!(text.contains("command: ./bin/login\n") && text.contains("provideClusterInfo: true"), "{text}");
}

// KC-3, KC-9
#[test]
fn a_program_of_the_path_is_not_that_of_the_directory() {
    let directory = Directory::new();
    let exec = "{command: login, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";
    directory.write("config", format!("users:\n- {{name: jane, user: {{exec: {exec}}}}}\n"));
    let rules = LoadingRules::explicit(directory.path("config"));
    let command = |kubeconfig: &mut Kubeconfig| -> String {
        let exec = kubeconfig.users.get_mut("jane").and_then(|user| user.exec.as_mut()).expect("it is there");
        let wanted = directory.path("login").to_string_lossy().into_owned();
        exec.command.replace(wanted).unwrap_or_default()
    };
    rules.edit(|kubeconfig| assert_eq!(command(kubeconfig), "login")).expect("it can be written");
    let mut again = rules.load().expect("we wrote it");
    assert_eq!(command(&mut again), directory.path("login").to_string_lossy());
}

// KC-9
#[test]
fn a_file_that_cannot_be_written_stays_as_it_was() {
    let directory = Directory::new();
    let file = directory.write("config", SECOND);
    // A directory in place of the temporary file makes writing fail for every user.
    std::fs::create_dir(directory.path(&format!("config.{}.tmp", std::process::id()))).expect("it can be made");
    let kubeconfig = Kubeconfig { current_context: Some("x".into()), ..Kubeconfig::default() };
    let error = kubeconfig.write(&file).expect_err("it cannot be written");
    assert!(error.to_string().contains("config"));
    assert_eq!(directory.read("config"), SECOND);
}

// KC-9
#[test]
fn concurrent_writers_lose_nothing() {
    let directory = Directory::new();
    let file = directory.write("config", "");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let rules = LoadingRules::explicit(&file);
            scope.spawn(move || {
                let cluster = Cluster { server: Some(format!("https://{writer}")), ..Cluster::default() };
                let add = |kubeconfig: &mut Kubeconfig| drop(kubeconfig.clusters.insert(format!("c{writer}"), cluster));
                rules.edit(add).expect("locks are waited for");
            });
        }
    });
    assert_eq!(Kubeconfig::read(&file).expect("it is whole").clusters.len(), 8);
}
