//! TLS: what a user says about it, certificates and keys from their files, and one encrypted connection.
//!
//! A [`Session`] belongs to the thread that owns the socket, and nobody else touches it: reading and writing share one
//! state. It does no more than the socket takes or has.
//!
//! ```text
//! Tls ──files, on rmq-aux──▶ Plan ──one per connection──▶ Session ◀──one per connection── Acceptor ◀──files── broker
//! ```

mod failure;
mod material;
mod session;
mod settings;
mod trust;

pub(crate) use failure::cause_of;
pub(crate) use material::{Acceptor, Plan};
pub(crate) use session::Session;
pub use settings::Tls;
