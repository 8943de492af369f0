//! Finds the path of `kubewright_runtime`: directly, or as part of `kubewright`.

use proc_macro_crate::{FoundCrate, crate_name};
use quote::format_ident;
use syn::{Path, parse_quote};

/// The path of `kubewright_runtime` in the crate being compiled, according to its manifest.
pub(crate) fn of_this_crate() -> Path {
    let runtime = match crate_name("kubewright-runtime") {
        Ok(FoundCrate::Name(name)) => name,
        // Tests and examples of the runtime see it under its own name.
        Ok(FoundCrate::Itself) => "kubewright_runtime".to_owned(),
        Err(_) => match crate_name("kubewright") {
            Ok(FoundCrate::Name(name)) => {
                let facade = format_ident!("{name}");
                return parse_quote!(::#facade::runtime);
            }
            // Without a manifest, such as outside Cargo, the runtime is the better guess.
            _ => "kubewright_runtime".to_owned(),
        },
    };
    let runtime = format_ident!("{runtime}");
    parse_quote!(::#runtime)
}
