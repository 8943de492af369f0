//! DER, the encoding of certificates and keys: its elements, and the fields of certificates.

mod certificate;
mod element;

pub use certificate::{COMMON_NAME, Certificate, ORGANIZATION, attributes};
pub use element::{BIT_STRING, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, SET, UTF8_STRING, any, element, of};
