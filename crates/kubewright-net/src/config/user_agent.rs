//! The user agent.

use std::path::Path;

/// `<binary>/<version> (<os>/<arch>) kubernetes/<commit>`, with Go's names for systems and
/// architectures.
pub(super) fn user_agent() -> String {
    let binary = std::env::args_os().next();
    let binary = binary.as_deref().and_then(|path| Path::new(path).file_stem()).map(|name| name.to_string_lossy());
    let binary: String = binary.as_deref().unwrap_or("unknown").chars().map(visible).collect();
    let commit = option_env!("KUBEWRIGHT_COMMIT").and_then(|commit| commit.get(..7)).unwrap_or("unknown");
    format!("{binary}/v{} ({}/{}) kubernetes/{commit}", env!("CARGO_PKG_VERSION"), system(), processor())
}

/// Replaces characters that are invalid in a header.
fn visible(c: char) -> char {
    if c.is_ascii_graphic() && c != '/' { c } else { '_' }
}

fn system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
