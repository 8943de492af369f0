//! The smallest controller: a clean release build, its size, and how soon it reconciles.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{KUBE, OURS};
use crate::bench::figures::Figures;
use crate::bench::goals::{Goals, ratio};
use crate::bench::process::{self, Server, write_kubeconfig};
use crate::bench::programs::succeed;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub const ROW: Row = Row {
    name: "hello",
    title: "Hello controller: build, size, start to first reconcile",
    charted: "build CPU s",
    packages: &["bench-controller"],
    go: &[],
    play,
    goals,
};

const CASE: &str = "hello";
/// A request over TLS without a controller: the cost of the dependencies alone.
const FLOOR: &str = "one GET over TLS";
/// A start takes some milliseconds, with outliers of twice as long.
const STARTS: usize = 40;

/// A built program with the CPU time of its clean build. Both are stored, so that a quick run need
/// not repeat the build.
struct Built {
    program: PathBuf,
    cpu_seconds: f64,
}

fn play(session: &Session, figures: &mut Figures) -> Result<(), String> {
    let built = [(OURS, build(session, "hello")?), (KUBE, build(session, "hello-kube")?)];
    let floor = (FLOOR, build(session, "hello-floor")?);
    for (contestant, built) in built.iter().chain([&floor]) {
        let bytes = fs::metadata(&built.program).map_err(|error| error.to_string())?.len();
        figures.add(CASE, contestant, "build CPU s", built.cpu_seconds);
        figures.add(CASE, contestant, "stripped MiB", bytes as f64 / 1048576.0);
    }
    let server = Server::start(session.programs.rust("bench-controller").args(["serve", "1"]))?;
    let kubeconfig = session.programs.target.join("hello").join("kubeconfig");
    write_kubeconfig(&kubeconfig, &server.url()?, "")?;
    for _ in 0..STARTS {
        for (contestant, built) in &built {
            // Its first line of output reports the first reconcile.
            let hello = Server::start(Command::new(&built.program).env("KUBECONFIG", &kubeconfig))?;
            if hello.greeting != "reconciled" {
                return Err(format!("{contestant} said {:?}", hello.greeting));
            }
            figures.add(CASE, contestant, "start to first reconcile ms", hello.took.as_secs_f64() * 1e3);
        }
    }
    Ok(())
}

fn build(session: &Session, package: &str) -> Result<Built, String> {
    let target = session.programs.target.join("hello").join(package);
    let (program, note) = (target.join("release").join(package), target.join("cpu-seconds"));
    let known = fs::read_to_string(&note).ok().and_then(|text| text.trim().parse().ok());
    if let (true, true, Some(cpu_seconds)) = (session.quick, program.exists(), known) {
        return Ok(Built { program, cpu_seconds });
    }
    let folder = session.programs.bench.join(package);
    let cargo = |words: &[&str]| {
        let mut command = Command::new("cargo");
        succeed(command.args(words).current_dir(&folder).env("CARGO_TARGET_DIR", &target))
    };
    cargo(&["fetch", "--quiet"])?;
    cargo(&["clean", "--quiet"])?;
    eprintln!("== building {package} from clean");
    let before = process::children_cpu_seconds();
    cargo(&["build", "--quiet", "--release"])?;
    let cpu_seconds = process::children_cpu_seconds() - before;
    fs::write(&note, cpu_seconds.to_string()).map_err(|error| error.to_string())?;
    Ok(Built { program, cpu_seconds })
}

fn goals(figures: &Figures, goals: &mut Goals) {
    for metric in ["build CPU s", "stripped MiB", "start to first reconcile ms"] {
        let (ours, theirs) = (figures.median(CASE, OURS, metric), figures.median(CASE, KUBE, metric));
        goals.at_most(&format!("{metric}, times kube-rs's"), ratio(ours, theirs), 1.0 / 3.0);
    }
}
