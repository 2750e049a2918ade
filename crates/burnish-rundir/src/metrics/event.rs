//! The content of event files: TFRecords, each with a protocol buffer message `Event`.
//!
//! ```text
//! record     length: u64   masked CRC32C of length: u32   Event   masked CRC32C of Event: u32   (little endian)
//! Event      1 wall_time: double   2 step: int64   3 file_version: string   5 summary   7 session_log
//! summary    1 value, repeated { 1 tag: string   2 simple_value: float }
//! ```
//!
//! Source: TensorFlow's `event.proto`, `summary.proto` and `lib/io/record_writer.cc`. Readers treat an incomplete
//! record at the end as the end of the file.

use crc::{CRC_32_ISCSI, Crc};

/// CRC-32C (Castagnoli), the checksum of TFRecords.
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The first event of a file.
pub(super) fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time);
    event.bytes(3, b"brain.Event:2");
    event.0
}

/// Says that all steps from `step_first` on are still to come, so that readers forget those that they have.
pub(super) fn start_event(wall_time: f64, step_first: u64) -> Vec<u8> {
    let mut session = Message::default();
    // SessionLog.START
    session.varint(1, 1);
    let mut event = Message::default();
    event.double(1, wall_time);
    event.varint(2, step_first);
    event.bytes(7, &session.0);
    event.0
}

/// The scalars of a step, by tag. `wall_time` is in seconds since 1970.
pub(super) fn scalars_event(wall_time: f64, step: u64, scalars: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (tag, number) in scalars {
        let mut value = Message::default();
        value.bytes(1, tag.as_bytes());
        value.float(2, *number as f32);
        summary.bytes(1, &value.0);
    }
    let mut event = Message::default();
    event.double(1, wall_time);
    event.varint(2, step);
    event.bytes(5, &summary.0);
    event.0
}

/// Wraps `event` in a record.
pub(super) fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(event.len() + 16);
    record.extend(length);
    record.extend(masked_crc32c(&length).to_le_bytes());
    record.extend(event);
    record.extend(masked_crc32c(event).to_le_bytes());
    record
}

/// The checksum, rotated and shifted by a constant, so that it stays good for data that contains checksums.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    CRC32C.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A message of protocol buffers under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, wire_type: u64) {
        self.raw_varint(field << 3 | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// What truncation needs to know about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Step of its event.
    pub(super) step: u64,
    /// Whether it holds scalars.
    pub(super) has_summary: bool,
    /// Offset of the byte after it.
    pub(super) end: usize,
}

/// The records of a file up to the first incomplete or damaged one, as TensorBoard reads them.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = Record> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let (event, size) = event_at(&bytes[end..])?;
        let (step, has_summary) = step_and_summary(event)?;
        end += size;
        Some(Record { step, has_summary, end })
    })
}

/// The event of the record at the start of `bytes`, and the size of the record.
fn event_at(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (length_crc, rest) = rest.split_first_chunk::<4>()?;
    if masked_crc32c(length) != u32::from_le_bytes(*length_crc) {
        return None;
    }
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (event, rest) = rest.split_at_checked(length)?;
    let (crc, _) = rest.split_first_chunk::<4>()?;
    (masked_crc32c(event) == u32::from_le_bytes(*crc)).then_some((event, length + 16))
}

fn step_and_summary(mut event: &[u8]) -> Option<(u64, bool)> {
    let (mut step, mut has_summary) = (0, false);
    while !event.is_empty() {
        let key = take_varint(&mut event)?;
        let skipped = match key & 7 {
            0 => {
                let value = take_varint(&mut event)?;
                if key >> 3 == 2 {
                    step = value;
                }
                0
            }
            1 => 8,
            2 => {
                has_summary |= key >> 3 == 5;
                usize::try_from(take_varint(&mut event)?).ok()?
            }
            5 => 4,
            _ => return None,
        };
        event = event.split_at_checked(skipped)?.1;
    }
    Some((step, has_summary))
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_what_the_formats_say() {
        // By hand, from event.proto: field 1 (double) 1.5; field 2 (varint) 300; field 5 { field 1 { field 1 "a",
        // field 2 (float) 1 } }.
        let event = scalars_event(1.5, 300, &[("a".into(), 1.0)]);
        assert_eq!(event[..9], [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
        assert_eq!(event[9..], [0x10, 0xac, 0x02, 0x2a, 10, 0x0a, 8, 0x0a, 1, b'a', 0x15, 0, 0, 0x80, 0x3f]);
        let record = record(&event);
        // As TensorFlow does: every event file begins with a record of this length.
        assert_eq!(record[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
        // Computed bit by bit from the polynomial of RFC 3720.
        assert_eq!(record[12 + 24..], [0xe3, 0xd5, 0x97, 0x0b]);
        assert_eq!(event_at(&record), Some((&event[..], 24 + 16)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = step_and_summary(&bytes);
            prop_assert!(records(&bytes).count() <= 4);
        }
    }
}
