//! The class filters that a broker was built with: in Java they would be compiled from a source, here they are closures.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::look;
use crate::message::{MessageQueue, MessageView};

/// A class by its name, and what it would say of a message.
#[derive(Clone)]
pub(crate) struct Class {
    pub(crate) name: String,
    says: Arc<dyn Fn(&MessageView) -> bool + Send + Sync>,
}

impl Class {
    pub(crate) fn new(name: String, says: impl Fn(&MessageView) -> bool + Send + Sync + 'static) -> Self {
        Self { name, says: Arc::new(says) }
    }

    /// Whether the message in this record is wanted. One over which the closure panics is not.
    pub(crate) fn takes(&self, record: Vec<u8>, queue: &MessageQueue) -> bool {
        let Some(message) = look::decode(record, queue).pop() else { return false };
        catch_unwind(AssertUnwindSafe(|| (self.says)(&message))).unwrap_or_else(|_| {
            log::error!("the closure of class {} panicked", self.name);
            false
        })
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Class").field(&self.name).finish()
    }
}
