//! Parquet rows as JSON.
//!
//! | parquet | JSON |
//! | --- | --- |
//! | integers, booleans, strings, lists, structs | the same |
//! | floats | numbers; those that are not finite are null. A 32-bit float keeps its shortest decimal form |
//! | maps | an object; keys that are no text become their JSON text |
//! | decimals | text, with all digits |
//! | dates, times, timestamps | ISO 8601 text; timestamps in UTC end with `Z` |
//! | bytes | text where they are UTF-8, else their hexadecimal digits |
//!
//! A struct has all its fields in every row. In the arguments of a tool call (`arguments`) and in a tool's schema
//! (`parameters`), a field without a value was never there, so it is left out. A map lists exactly the keys that it
//! holds.

use chrono::{DateTime, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::record::{Field, Row};
use parquet::schema::types::{SchemaDescPtr, Type};
use serde_json::{Map, Number, Value};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::{DataError, Place, Record};

/// Number of rows that are decoded at once.
const BATCH_ROWS: usize = 256;

/// Reads a parquet file row by row: row group after row group, page after page.
pub(crate) struct ParquetRows {
    path: PathBuf,
    file: SerializedFileReader<File>,
    schema: SchemaDescPtr,
    /// Number of row groups begun.
    groups: usize,
    group: Option<ReaderIter>,
    /// Number of rows read.
    rows: u64,
}

impl ParquetRows {
    pub(crate) fn open(path: &Path, file: File) -> Result<Self, DataError> {
        let file = guarded(|| SerializedFileReader::new(file)).map_err(|problem| {
            DataError::file(
                path,
                format!("is not a whole parquet file: {problem}; was it copied to its end?"),
            )
        })?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        Ok(ParquetRows { path: path.to_owned(), file, schema, groups: 0, group: None, rows: 0 })
    }

    pub(crate) fn next(&mut self) -> Option<Result<Record, DataError>> {
        let place = Place::Row(self.rows + 1);
        let row = match guarded(AssertUnwindSafe(|| self.next_row().transpose())) {
            Ok(row) => row?,
            Err(problem) => {
                return Some(Err(DataError::at(&self.path, place, format!("can't be decoded: {problem}"))));
            }
        };
        self.rows += 1;
        let fields = self.schema.root_schema().get_fields();
        let columns = row
            .into_columns()
            .into_iter()
            .zip(fields)
            .map(|((name, field), kind)| (name, to_json(&field, Some(kind))))
            .collect();
        Some(Ok(Record { place, columns }))
    }

    fn next_row(&mut self) -> Option<parquet::errors::Result<Row>> {
        loop {
            if let Some(row) = self.group.as_mut().and_then(Iterator::next) {
                return Some(row);
            }
            if self.groups == self.file.num_row_groups() {
                return None;
            }
            let group = self.file.get_row_group(self.groups).and_then(|group| {
                TreeBuilder::new().with_batch_size(BATCH_ROWS).as_iter(self.schema.clone(), &*group)
            });
            self.groups += 1;
            match group {
                Ok(group) => self.group = Some(group),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Runs `read`. A damaged file may break an assertion of the decoder; the panic becomes an error.
fn guarded<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err("it is damaged".to_owned()),
    }
}

/// A value as JSON. `kind` is its type in the schema, the only place where units of time are recorded.
fn to_json(field: &Field, kind: Option<&parquet::schema::types::TypePtr>) -> Value {
    let kind = kind.map(AsRef::as_ref);
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => long(*value, kind),
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Float16(value) => shortest(f32::from(*value)),
        Field::Float(value) => shortest(*value),
        Field::Double(value) => Value::from(*value),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => bytes_to_json(bytes.data()),
        Field::Date(days) => {
            let date = DateTime::UNIX_EPOCH.checked_add_signed(TimeDelta::days((*days).into()));
            text_or(date.map(|date| date.date_naive().to_string()), i64::from(*days))
        }
        Field::TimeMillis(millis) => time_of_day(TimeDelta::milliseconds((*millis).into())),
        Field::TimeMicros(micros) => time_of_day(TimeDelta::microseconds(*micros)),
        Field::TimestampMillis(millis) => timestamp(DateTime::from_timestamp_millis(*millis), *millis, kind),
        Field::TimestampMicros(micros) => timestamp(DateTime::from_timestamp_micros(*micros), *micros, kind),
        // Their own text has all digits; a JSON number may lose some.
        Field::Decimal(_) => Value::String(field.to_string()),
        Field::Group(row) => {
            let kinds = kind.filter(|kind| kind.is_group()).map(Type::get_fields).unwrap_or_default();
            let column = |(at, (name, field)): (usize, (&String, &Field))| {
                let value = to_json(field, kinds.get(at));
                let is_open = ["arguments", "parameters"].contains(&name.as_str());
                (name.clone(), if is_open { without_absent(value, field) } else { value })
            };
            Value::Object(row.get_column_iter().enumerate().map(column).collect())
        }
        Field::ListInternal(list) => {
            // list -> repeated group -> element, or the older list -> repeated element.
            let repeated = kind.filter(|kind| kind.is_group()).and_then(|kind| kind.get_fields().first());
            let element = match repeated {
                Some(group) if group.is_group() && group.get_fields().len() == 1 => {
                    group.get_fields().first()
                }
                other => other,
            };
            Value::Array(list.elements().iter().map(|field| to_json(field, element)).collect())
        }
        Field::MapInternal(map) => {
            let mut object = Map::new();
            for (key, value) in map.entries() {
                let key = match to_json(key, None) {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                object.insert(key, to_json(value, None));
            }
            Value::Object(object)
        }
    }
}

/// The value without those fields of structs that have no value.
fn without_absent(value: Value, field: &Field) -> Value {
    match (value, field) {
        (Value::Object(columns), Field::Group(row)) => {
            let columns = columns.into_iter().zip(row.get_column_iter());
            let there = columns.filter(|((_, value), _)| !value.is_null());
            Value::Object(
                there.map(|((name, value), (_, field))| (name, without_absent(value, field))).collect(),
            )
        }
        (Value::Array(items), Field::ListInternal(list)) => {
            let items = items.into_iter().zip(list.elements());
            Value::Array(items.map(|(item, field)| without_absent(item, field)).collect())
        }
        (value, _) => value,
    }
}

/// The number with the same shortest decimal form.
fn shortest(value: f32) -> Value {
    let number = value.to_string().parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or(Value::Null, Value::Number)
}

/// An integer, or a time in nanoseconds, for which there is no older type that the decoder could recognise.
fn long(value: i64, kind: Option<&Type>) -> Value {
    match kind.and_then(|kind| kind.get_basic_info().logical_type_ref()) {
        Some(LogicalType::Timestamp(unit)) if unit.unit == TimeUnit::NANOS => {
            timestamp(Some(DateTime::from_timestamp_nanos(value)), value, kind)
        }
        Some(LogicalType::Time(unit)) if unit.unit == TimeUnit::NANOS => {
            time_of_day(TimeDelta::nanoseconds(value))
        }
        _ => Value::from(value),
    }
}

fn timestamp<Z: chrono::TimeZone>(time: Option<DateTime<Z>>, number: i64, kind: Option<&Type>) -> Value {
    let time = time.map(|time| time.to_utc());
    let is_utc = match kind.and_then(|kind| kind.get_basic_info().logical_type_ref()) {
        Some(LogicalType::Timestamp(stamp)) => stamp.is_adjusted_to_u_t_c,
        _ => false,
    };
    let text = time.map(|time| {
        if is_utc {
            time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
        } else {
            let local: NaiveDateTime = time.naive_utc();
            local.format("%Y-%m-%dT%H:%M:%S%.f").to_string()
        }
    });
    text_or(text, number)
}

fn time_of_day(since_midnight: TimeDelta) -> Value {
    let (time, _) = NaiveTime::MIN.overflowing_add_signed(since_midnight);
    Value::String(time.format("%H:%M:%S%.f").to_string())
}

/// The text, or the bare number if it is outside the calendar's range.
fn text_or(text: Option<String>, number: i64) -> Value {
    text.map_or(Value::from(number), Value::String)
}

fn bytes_to_json(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}
