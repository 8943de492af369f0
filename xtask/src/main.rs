//! Project tasks.
//!
//! `cargo xtask generate` writes the code that is derived from the description in `api/`;
//! `cargo xtask generate --check` fails if the committed code is not what it would write.
//! `cargo xtask bench` compares kubewright with its peers; see `bench/README.md`.
//! `cargo xtask names [--check]` does the same for the list of Go names in the book.
//! `cargo xtask side-by-side [--check]` does the same for the page of programs in the book.
//! `cargo xtask readmes [--check]` does the same for the READMEs of crates.
//! `cargo xtask layers --check` fails on dependencies that ARCHITECTURE.md does not list and on
//! import cycles between folders; without `--check` it also shows cycles between files.
//! `cargo xtask prose --check` fails on wide lines and on sentences without a subject.

mod bench;
mod description;
mod generate;
mod layers;
mod names;
mod prose;
mod readmes;
mod side_by_side;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["generate"] => generate::run(false),
        ["generate", "--check"] => generate::run(true),
        ["names"] => names::run(false),
        ["names", "--check"] => names::run(true),
        ["side-by-side"] => side_by_side::run(false),
        ["side-by-side", "--check"] => side_by_side::run(true),
        ["readmes"] => readmes::run(false),
        ["readmes", "--check"] => readmes::run(true),
        ["layers", "--check"] => layers::run(false),
        ["prose", "--check"] => prose::run(),
        ["layers"] => layers::run(true),
        ["bench", words @ ..] => bench::run(words),
        _ => Err(format!(
            "usage: cargo xtask generate|names|side-by-side|readmes|layers [--check]|prose --check, or {}",
            bench::USAGE
        )),
    };
    match done {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            println!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
