//! Compiles the files that `kubewright create webhook` writes.

// The versions of a kind start with the same text.
#![allow(clippy::duplicate_mod)]
#![allow(dead_code)]

#[path = "../new/src/kinds/widget/v1alpha1.rs"]
mod v1alpha1;
#[path = "../new/src/kinds/widget/v1alpha1.rs"]
mod v1beta1;
mod conversion {
    mod v1beta1;
}
mod defaulting;
mod validating;

use kubewright::runtime::custom::Versions;
use kubewright::runtime::webhook::Webhooks;

fn main() {
    let versions = Versions::<v1alpha1::Widget>::new().with::<v1beta1::Widget>();
    let webhooks = Webhooks::new()
        .set_defaults(defaulting::set_defaults)
        .validate(validating::validate)
        .convert("/convert", versions.into_converter());
    println!("{webhooks:?}");
}
