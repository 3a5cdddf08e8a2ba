//! A store without a file: whoever plays the disk takes up each write, and says what came of it.

use std::sync::Arc;

use super::{Keeper, LocalStore, Table};
use crate::remoting::Aux;

/// A write that is under way.
#[derive(Debug)]
pub(in crate::consumer) struct Write {
    /// What the file will hold.
    pub(in crate::consumer) table: Table,
    /// The commits that it makes safe.
    pub(in crate::consumer) tags: Vec<u64>,
}

impl LocalStore {
    /// One that has found this in its file.
    pub(in crate::consumer) fn played(table: Table) -> Arc<Self> {
        Arc::new(Self::new(table, Keeper::Played, Aux::new(), Box::new(|_, _| {})))
    }

    /// The next write, if there is something to write. The one before it must be through.
    pub(in crate::consumer) fn begin_write(&self) -> Option<Write> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            return None;
        }
        let (table, tags) = state.take_up();
        Some(Write { table, tags })
    }
}
