//! The offsets of a broadcasting consumer, which each member keeps for itself.
//!
//! The table in memory is what counts while the consumer runs; a file follows it. A commit is confirmed when the file
//! that holds it is on the disk. Files are written on `rmq-aux`, one write at a time for each consumer: what is committed
//! meanwhile goes with the next one.

mod file;
#[cfg(all(test, not(loom)))]
pub(super) mod played;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::bounded;
use parking_lot::Mutex;

use super::offset::Offset;
use crate::error::{Error, ErrorKind, Mistake, Result};
use crate::message::MessageQueue;
use crate::remoting::Aux;
use file::OffsetFile;

/// Where a broadcasting consumer keeps its offsets. No broker knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocalOffsets {
    /// In the file `<group>.json` in this directory, which is made if need be. It is the same after a restart, since
    /// nothing in its name is made up; one consumer at a time holds it. Where it does not exist yet, the newest file
    /// that a Java client has left for the group in this directory (`<client id>/<group>/offsets.json`) is taken over.
    Directory(PathBuf),
    /// In memory only: after a restart the consumer begins where `consume_from` says.
    Memory,
}

impl LocalOffsets {
    /// That of the Java client: `.rocketmq_offsets` in the home directory of the user.
    pub(super) fn standard() -> Option<Self> {
        std::env::home_dir()
            .filter(|home| !home.as_os_str().is_empty())
            .map(|home| Self::Directory(home.join(".rocketmq_offsets")))
    }
}

/// By queue, the offset of the next message to be consumed.
type Table = BTreeMap<MessageQueue, Offset>;

/// Hears of each commit by its tag, once it is safe or has failed.
pub(super) type Written = Box<dyn Fn(u64, Result<(), String>) + Send + Sync>;

/// The offsets of one consumer.
pub(crate) struct LocalStore {
    state: Mutex<State>,
    aux: Aux,
    written: Written,
}

struct State {
    /// What was committed.
    table: Table,
    /// What of that is safe.
    safe: Table,
    keeper: Keeper,
    /// Commits that no write has taken up yet.
    waiting: Vec<u64>,
    /// A write is under way, or about to begin.
    writing: bool,
}

impl State {
    /// What the next write is to hold, and the commits that it makes safe.
    fn take_up(&mut self) -> (Table, Vec<u64>) {
        (self.table.clone(), std::mem::take(&mut self.waiting))
    }
}

enum Keeper {
    Memory,
    File(Arc<OffsetFile>),
    /// Somebody plays the file, and takes up the writes.
    #[cfg(all(test, not(loom)))]
    Played,
    Closed,
}

impl LocalStore {
    /// Reads what there is of the group, on `rmq-aux`, and waits for that until the deadline.
    ///
    /// # Errors
    /// `Config` if another consumer holds the file, `Io` if it cannot be read or its directory cannot be written,
    /// `Timeout` if the file system does not answer.
    pub(super) fn open(
        place: &LocalOffsets,
        group: &str,
        aux: &Aux,
        deadline: Instant,
        written: Written,
    ) -> Result<Arc<Self>> {
        let (keeper, table) = match place {
            LocalOffsets::Memory => (Keeper::Memory, Table::new()),
            LocalOffsets::Directory(directory) => {
                let (file, table) = open_file(directory.clone(), group.to_owned(), aux, deadline)?;
                (Keeper::File(Arc::new(file)), table)
            }
        };
        Ok(Arc::new(Self::new(table, keeper, aux.clone(), written)))
    }

    fn new(table: Table, keeper: Keeper, aux: Aux, written: Written) -> Self {
        let state = State { safe: table.clone(), table, keeper, waiting: Vec::new(), writing: false };
        Self { state: Mutex::new(state), aux, written }
    }

    /// The offset of a queue, if it has one. What could not be written does not count.
    pub(super) fn stored(&self, queue: &MessageQueue) -> Option<Offset> {
        self.state.lock().safe.get(queue).copied()
    }

    /// Stores one. The outcome comes with the tag, maybe before this returns.
    pub(super) fn commit(self: &Arc<Self>, queue: &MessageQueue, offset: Offset, tag: u64) {
        let mut state = self.state.lock();
        match &state.keeper {
            Keeper::Closed => {
                drop(state);
                return (self.written)(tag, Err("the consumer has ended".to_owned()));
            }
            Keeper::Memory => {
                state.safe.insert(queue.clone(), offset);
                drop(state);
                return (self.written)(tag, Ok(()));
            }
            Keeper::File(_) => {}
            #[cfg(all(test, not(loom)))]
            Keeper::Played => state.writing = true,
        }
        state.table.insert(queue.clone(), offset);
        state.waiting.push(tag);
        if !std::mem::replace(&mut state.writing, true) {
            drop(state);
            let store = self.clone();
            self.aux.run(move || store.write());
        }
    }

    /// Takes nothing more, and lets go of the file once the write that is under way, if any, is through.
    pub(super) fn close(&self) {
        let keeper = std::mem::replace(&mut self.state.lock().keeper, Keeper::Closed);
        drop(keeper);
    }

    /// Writes until there is nothing left to write.
    fn write(&self) {
        while let Some((file, table, tags)) = self.next_write() {
            let result = file.save(&table).map_err(|error| format!("{}: {error}", file.path().display()));
            if result.is_ok() {
                self.is_written(table);
            }
            // Before anybody hears of it: who does may close the store, and the next one take the file at once.
            drop(file);
            for tag in tags {
                (self.written)(tag, result.clone());
            }
        }
    }

    /// A write of this is on the disk.
    pub(in crate::consumer) fn is_written(&self, table: Table) {
        self.state.lock().safe = table;
    }

    fn next_write(&self) -> Option<(Arc<OffsetFile>, Table, Vec<u64>)> {
        let mut state = self.state.lock();
        let file = match &state.keeper {
            Keeper::File(file) if !state.waiting.is_empty() => file.clone(),
            _ => {
                state.writing = false;
                return None;
            }
        };
        let (table, tags) = state.take_up();
        Some((file, table, tags))
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state.lock().keeper {
            Keeper::Memory => "LocalStore(memory)",
            Keeper::File(_) => "LocalStore(file)",
            #[cfg(all(test, not(loom)))]
            Keeper::Played => "LocalStore(played)",
            Keeper::Closed => "LocalStore(closed)",
        })
    }
}

/// A file system may hang as a network does.
fn open_file(directory: PathBuf, group: String, aux: &Aux, deadline: Instant) -> Result<(OffsetFile, Table)> {
    let (done, opened) = bounded(1);
    let place = directory.display().to_string();
    aux.run(move || {
        // Who has stopped waiting does not get the file: it is let go of here.
        drop(done.send(OffsetFile::open(&directory, &group)));
    });
    opened.recv_deadline(deadline).unwrap_or_else(|_| {
        let text = format!("the local offsets in {place} could not be read within the start timeout");
        Err(Error::new(ErrorKind::Timeout, text))
    })
}

fn in_use(path: &std::path::Path) -> Error {
    let problem = format!(
        "{} is held by another consumer of this group, in this process or another one: give each its own directory",
        path.display()
    );
    Error::config(vec![Mistake::new("local_offsets", problem)])
}
