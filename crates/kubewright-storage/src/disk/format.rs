//! The format of the data file: its tables, checksums and versions.
//!
//! | table | key | value |
//! |---|---|---|
//! | `kubewright` | name | number: `format`, `revision`, `reserved` |
//! | `objects.2` | resource, path | revision, checksum, JSON |
//! | `events` | revision | the write that took this revision, enough to undo it |
//!
//! An event holds the value *before* its write. The value after it is the current object, or the
//! value before the next write of the same key. Only a deletion holds its own last value as well.
//!
//! Version 1 had a table `objects` without checksums and no events. [`migrate`] converts it.

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};

use crate::event::EventKind;
use crate::record::{Damage, DataFileContents, EventRecord, StoredRecord, StoredVersion, Undo, WriteRecord};

/// The version of the format that this code writes.
pub(super) const FORMAT: u64 = 2;

/// How many revisions are reserved at a time where readers see writes before they are durable.
pub(super) const RESERVED: u64 = 100_000;

const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("kubewright");
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, u32, &[u8])> = TableDefinition::new("objects.2");
const OBJECTS_1: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("objects");
const EVENTS: TableDefinition<'_, u64, EventValue> = TableDefinition::new("events");

/// Checksum, kind, resource, path, revision before, value before, last value of a deletion.
type EventValue = (u32, u8, &'static str, &'static str, u64, &'static [u8], &'static [u8]);

/// Begins a transaction after which a crash needs no long repair.
///
/// Without quick repair, redb walks over the whole file after a crash before it opens it. The price
/// is a second flush for each group of writes.
fn begin(database: &Database) -> Result<WriteTransaction, redb::TransactionError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Writes a batch in one transaction, and drops the events up to revision `forgotten`.
pub(super) fn write(
    database: &Database,
    records: &[WriteRecord],
    forgotten: u64,
    reserves: bool,
) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut events = transaction.open_table(EVENTS)?;
        for record in records {
            let WriteRecord { resource, path, revision, kind, json, previous } = record;
            let key = (resource.as_str(), path.as_str());
            let last = if *kind == EventKind::Deleted {
                objects.remove(key)?;
                &json[..]
            } else {
                objects.insert(key, (*revision, checksum(key, *revision, &[json]), &json[..]))?;
                &[]
            };
            let (before, value): (u64, &[u8]) =
                previous.as_ref().map_or((0, &[]), |previous| (previous.revision, &previous.json));
            let checksum = checksum(key, *revision, &[&[code(*kind)], &before.to_le_bytes(), value, last]);
            events.insert(revision, (checksum, code(*kind), key.0, key.1, before, value, last))?;
        }
        if events.first()?.is_some_and(|(oldest, _)| oldest.value() <= forgotten) {
            events.retain_in(..=forgotten, |_, _| false)?;
        }
        let mut facts = transaction.open_table(FACTS)?;
        if let Some(last) = records.last() {
            facts.insert("revision", last.revision)?;
            let reserved = facts.get("reserved")?.map_or(0, |reserved| reserved.value());
            // One page less to write for most batches.
            if reserves && reserved < last.revision + RESERVED / 2 {
                facts.insert("reserved", last.revision + RESERVED)?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Notes that a server starts or stops at `revision`, with or without revisions in reserve. Keeps
/// the events after revision `forgotten`.
pub(super) fn mark(database: &Database, revision: u64, forgotten: u64, reserves: bool) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    {
        transaction.open_table(OBJECTS)?;
        transaction.open_table(EVENTS)?.retain_in(..=forgotten, |_, _| false)?;
        let mut facts = transaction.open_table(FACTS)?;
        facts.insert("format", FORMAT)?;
        facts.insert("revision", revision)?;
        facts.insert("reserved", if reserves { revision + RESERVED } else { 0 })?;
    }
    transaction.commit()?;
    Ok(())
}

/// Adds objects to a new file.
pub(super) fn fill(database: &Database, records: &[StoredRecord]) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for StoredRecord { resource, path, version: StoredVersion { revision, json } } in records {
            let key = (resource.as_str(), path.as_str());
            objects.insert(key, (*revision, checksum(key, *revision, &[json]), &json[..]))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Makes sure that failed writes after `revision` are not in the file.
///
/// An error while a transaction was flushed leaves it open whether the transaction survived.
pub(super) fn undo(database: &Database, revision: u64, undone: &[Undo]) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for Undo { resource, path, version } in undone {
            let key = (resource.as_str(), path.as_str());
            match version {
                None => drop(objects.remove(key)?),
                Some(StoredVersion { revision, json }) => {
                    objects.insert(key, (*revision, checksum(key, *revision, &[json]), &json[..]))?;
                }
            }
        }
        transaction.open_table(EVENTS)?.retain_in(revision + 1.., |_, _| false)?;
        transaction.open_table(FACTS)?.insert("revision", revision)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Removes a record that cannot be used.
pub(super) fn discard(database: &Database, resource: &str, path: &str) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    transaction.open_table(OBJECTS)?.remove((resource, path))?;
    transaction.commit()?;
    Ok(())
}

/// Reads a file of the current format.
pub(super) fn read(database: &Database) -> Result<DataFileContents, redb::Error> {
    let transaction = database.begin_read()?;
    let facts = transaction.open_table(FACTS)?;
    let fact = |name: &str| facts.get(name).map(|fact| fact.map_or(0, |fact| fact.value()));
    let mut revision = fact("revision")?;
    let reserved = fact("reserved")?;
    let mut contents = DataFileContents::default();
    let objects = transaction.open_table(OBJECTS)?;
    contents.objects.reserve_exact(usize::try_from(objects.len()?).unwrap_or_default());
    for entry in objects.iter()? {
        let (key, value) = entry?;
        let (resource, path) = key.value();
        let (revision, expected, json) = value.value();
        let key = (resource.to_owned(), path.to_owned());
        if checksum((resource, path), revision, &[json]) == expected {
            let version = StoredVersion { revision, json: json.into() };
            contents.objects.push(StoredRecord { resource: key.0, path: key.1, version });
        } else {
            let reason = "its checksum does not match".to_owned();
            contents.damaged.push(Damage { resource: key.0, path: key.1, reason });
        }
    }
    if reserved > revision {
        // Readers may have seen revisions that never reached the file. They are not used again, and
        // reads cannot continue from one of them.
        revision = reserved;
    } else {
        contents.events = read_events(&transaction.open_table(EVENTS)?)?;
    }
    contents.revision = Some(revision);
    Ok(contents)
}

/// The events that follow the last damaged one.
fn read_events(table: &impl ReadableTable<u64, EventValue>) -> Result<Vec<EventRecord>, redb::Error> {
    let mut events = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let revision = key.value();
        let (expected, kind, resource, path, before, previous, last) = value.value();
        let parts: [&[u8]; 4] = [&[kind], &before.to_le_bytes(), previous, last];
        let kind = kind_of(kind).filter(|_| checksum((resource, path), revision, &parts) == expected);
        let Some(kind) = kind else {
            tracing::error!(revision, "an event of the data file is damaged: watches cannot start before it");
            events.clear();
            continue;
        };
        events.push(EventRecord {
            resource: resource.to_owned(),
            path: path.to_owned(),
            revision,
            kind,
            last: last.into(),
            previous: (kind != EventKind::Created).then(|| StoredVersion { revision: before, json: previous.into() }),
        });
    }
    Ok(events)
}

/// The version of the format of a file; none if it has no tables yet.
pub(super) fn version(database: &Database) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    match transaction.open_table(FACTS) {
        Err(redb::TableError::TableDoesNotExist(_)) if transaction.list_tables()?.next().is_none() => Ok(None),
        facts => Ok(Some(facts?.get("format")?.map_or(0, |format| format.value()))),
    }
}

/// Converts a file of version 1, in one transaction.
pub(super) fn migrate(database: &Database) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    copy_objects(&transaction)?;
    transaction.delete_table(OBJECTS_1)?;
    transaction.open_table(EVENTS)?;
    // `revision` was ahead of all writes. No event of the time before it is known.
    transaction.open_table(FACTS)?.insert("format", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

fn copy_objects(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let old = transaction.open_table(OBJECTS_1)?;
    let mut objects = transaction.open_table(OBJECTS)?;
    for entry in old.iter()? {
        let (key, value) = entry?;
        let (revision, json) = value.value();
        objects.insert(key.value(), (revision, checksum(key.value(), revision, &[json]), json))?;
    }
    Ok(())
}

/// The checksum of a record, with its key, so that no record is taken for another.
fn checksum((resource, path): (&str, &str), revision: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [resource.as_bytes(), path.as_bytes()].iter().chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(&revision.to_le_bytes());
    hasher.finalize()
}

fn code(kind: EventKind) -> u8 {
    match kind {
        EventKind::Created => 1,
        EventKind::Modified => 2,
        EventKind::Deleted => 3,
    }
}

fn kind_of(code: u8) -> Option<EventKind> {
    [EventKind::Created, EventKind::Modified, EventKind::Deleted].into_iter().find(|kind| self::code(*kind) == code)
}
