//! The file of local offsets: read, written, locked, put aside. Everything here may hang as a disk does.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Table, in_use};
use crate::consumer::offset::Offset;
use crate::error::{Error, Result};
use crate::protocol::body::ResetOffsetBody;
use crate::protocol::json;

/// The file of one group, held for as long as this lives.
#[derive(Debug)]
pub(super) struct OffsetFile {
    path: PathBuf,
    backup: PathBuf,
    temporary: PathBuf,
    /// Locked. Not the file itself, since each write replaces that.
    _lock: File,
}

impl OffsetFile {
    /// Takes hold of the file and reads it.
    pub(super) fn open(directory: &Path, group: &str) -> Result<(Self, Table)> {
        let file = Self::hold(directory, group)?;
        let (main, backup) = (file.read(&file.path)?, file.read(&file.backup)?);
        let absent = matches!((&main, &backup), (Found::Nothing, Found::Nothing));
        let table = match (main, backup) {
            (Found::Table(table), _) => table,
            (_, Found::Table(table)) => {
                log::warn!("going on with the local offsets of {}", file.backup.display());
                table
            }
            _ if absent => file.import(directory, group)?,
            _ => {
                log::error!("no local offsets of {group} can be read: it begins as if there were none");
                Table::new()
            }
        };
        Ok((file, table))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces what is in the file. After a crash at any moment there is either the old or the new content, in the file
    /// or in its backup.
    pub(super) fn save(&self, table: &Table) -> io::Result<()> {
        let offset_table = table.iter().map(|(queue, offset)| (queue.clone(), offset.wire())).collect();
        let mut new = File::create(&self.temporary)?;
        new.write_all(&ResetOffsetBody { offset_table }.write_list())?;
        new.sync_all()?;
        drop(new);
        match fs::rename(&self.path, &self.backup) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(&self.temporary, &self.path)?;
        sync_directory_of(&self.path)
    }

    fn hold(directory: &Path, group: &str) -> Result<Self> {
        let path = directory.join(format!("{}.json", file_name(group)));
        let failed = |error| Error::io(format!("the local offsets in {}", path.display()), error);
        fs::create_dir_all(directory).map_err(failed)?;
        let lock_path = path.with_extension("json.lock");
        let lock = File::options().create(true).append(true).open(lock_path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&path)),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                log::warn!(
                    "the file system of {} has no locks: nothing keeps two consumers apart",
                    path.display()
                );
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let (backup, temporary) = (path.with_extension("json.bak"), path.with_extension("json.tmp"));
        Ok(Self { path, backup, temporary, _lock: lock })
    }

    /// Reads one of the two files. One that is damaged is put aside, so that nothing overwrites what can still be found
    /// out from it.
    fn read(&self, path: &Path) -> Result<Found> {
        let failed = |error| Error::io(format!("the local offsets in {}", path.display()), error);
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            // Not the same as none: it would begin elsewhere for a disk that has a bad moment.
            Err(error) => return Err(failed(error)),
        };
        match parse(&bytes) {
            Ok(table) => Ok(Found::Table(table)),
            Err(problem) => {
                let aside = free_name_for(path);
                fs::rename(path, &aside).map_err(failed)?;
                log::error!(
                    "{} is damaged and was put aside as {}: {problem}",
                    path.display(),
                    aside.display()
                );
                Ok(Found::Damaged)
            }
        }
    }

    /// The newest offsets that a Java client has left for this group, whatever its id was.
    fn import(&self, directory: &Path, group: &str) -> Result<Table> {
        for path in java_files(directory, group) {
            match fs::read(&path).map_err(|error| error.to_string()).and_then(|bytes| parse(&bytes)) {
                Ok(table) => {
                    log::info!(
                        "takes over {} local offsets of a Java client from {}",
                        table.len(),
                        path.display()
                    );
                    self.save(&table).map_err(|error| {
                        Error::io(format!("the local offsets in {}", self.path.display()), error)
                    })?;
                    return Ok(table);
                }
                Err(problem) => {
                    log::warn!("the local offsets in {} are passed over: {problem}", path.display())
                }
            }
        }
        Ok(Table::new())
    }
}

enum Found {
    Table(Table),
    Nothing,
    Damaged,
}

/// Takes what we write and what the Java client writes.
fn parse(bytes: &[u8]) -> Result<Table, String> {
    let value = json::parse(bytes).map_err(|error| error.to_string())?;
    if value.get("offsetTable").is_none() {
        return Err("it has no offsetTable".to_owned());
    }
    let body = ResetOffsetBody::read(bytes).map_err(|error| error.to_string())?;
    let offset = |(queue, wire)| Offset::new(wire).map(|offset| (queue, offset));
    Ok(body.offset_table.into_iter().filter_map(offset).collect())
}

/// `<directory>/<client id>/<group>/offsets.json`, the newest first.
fn java_files(directory: &Path, group: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|client| client.path().join(group).join("offsets.json"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().unwrap_or(UNIX_EPOCH), path)))
        .collect();
    files.sort();
    files.into_iter().rev().map(|(_, path)| path).collect()
}

/// Of what a group may be called, only this is not for the files of every system.
fn file_name(group: &str) -> String {
    group.replace('|', "%7C")
}

fn free_name_for(path: &Path) -> PathBuf {
    let name = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if n == 0 { ".damaged".to_owned() } else { format!(".damaged-{n}") });
        PathBuf::from(name)
    };
    (0..MOST_ASIDE).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(MOST_ASIDE))
}

/// A new name is on the disk only when its directory is.
#[cfg(unix)]
fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_directory_of(_: &Path) -> io::Result<()> {
    Ok(())
}

const MOST_ASIDE: u32 = 100;
