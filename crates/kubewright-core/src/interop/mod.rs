//! Our types in the traits of other crates.

#[cfg(feature = "schemars")]
pub(crate) mod json_schemas;
#[cfg(feature = "serde")]
pub(crate) mod serde_impls;
