//! Memory use does not grow with the content of a file. A child process reads a file much larger than its memory limit;
//! the kernel's peak resident size (VmHWM) decides.

use crate::common::Scratch;
use burnish_data::{Stream, Table};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const ROWS: usize = 28_000;
const ROW_BYTES: usize = 4_096;

/// Peak memory that the reading process may use: less than a quarter of the content.
const PEAK_KIB_MAX: u64 = 24 << 10;

const FILE: &str = "BURNISH_TEST_FILE";

/// Text that no dictionary can compress across rows, but that compresses quickly.
fn text(row: usize) -> String {
    format!("{row} {:x} ", row.wrapping_mul(0x9E37_79B9))
        .repeat(ROW_BYTES / 8)
        .chars()
        .take(ROW_BYTES)
        .collect()
}

fn write_jsonl(mut file: impl Write) {
    for row in 0..ROWS {
        writeln!(file, "{{\"prompt\": \"{}\"}}", text(row)).unwrap();
    }
}

fn write_parquet(path: &Path) {
    let schema = parse_message_type("message rows { required binary prompt (UTF8); }").unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    // One large row group and a small one.
    for rows in [0..ROWS - 10, ROWS - 10..ROWS] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        for row in rows {
            let value = ByteArray::from(text(row).as_str());
            column.typed::<ByteArrayType>().write_batch(&[value], None, None).unwrap();
        }
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Run in a process of its own by the test below; otherwise it does nothing.
#[test]
fn a_child_reads_the_file_that_it_is_given() {
    let Ok(path) = std::env::var(FILE) else { return };
    let path = PathBuf::from(path);
    assert_eq!(Stream::open(&path).unwrap().map(Result::unwrap).count(), ROWS);
    let table = Table::open(&path).unwrap();
    assert_eq!(table.len(), ROWS);
    for index in (0..ROWS).step_by(97).rev() {
        assert_eq!(table.get(index).unwrap()["prompt"], text(index));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\npeak {}", peak.trim_end_matches("kB").trim());
}

#[test]
fn reading_holds_a_fraction_of_the_file() {
    if !Path::new("/proc/self/status").exists() {
        println!("skipped: there is no /proc to see the memory of a process in");
        return;
    }
    let jsonl = Scratch::new("big.jsonl", "");
    write_jsonl(std::io::BufWriter::new(std::fs::File::create(jsonl.path()).unwrap()));
    assert!(std::fs::metadata(jsonl.path()).unwrap().len() > (4 * PEAK_KIB_MAX) << 10);
    let packed = Scratch::new("big.jsonl.gz", "");
    let file = std::fs::File::create(packed.path()).unwrap();
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    write_jsonl(&mut packer);
    packer.finish().unwrap();
    let parquet = Scratch::new("big.parquet", "");
    write_parquet(&parquet.path());
    assert!(std::fs::metadata(parquet.path()).unwrap().len() > (4 * PEAK_KIB_MAX) << 10);
    for scratch in [jsonl, packed, parquet] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::a_child_reads_the_file_that_it_is_given", "--nocapture"])
            .env(FILE, scratch.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
        let peak: u64 =
            said.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().trim().parse().unwrap();
        println!("{}: peak {peak} KiB", scratch.path().display());
        assert!(peak < PEAK_KIB_MAX, "{}: {peak} KiB", scratch.path().display());
    }
}

#[test]
fn a_table_holds_eight_bytes_a_row() {
    let row = |length| format!("{{\"prompt\": \"{}\"}}\n", "x".repeat(length));
    for length in [1, 10_000] {
        let scratch = Scratch::new("rows.jsonl", row(length).repeat(500));
        assert_eq!(Table::open(&scratch.path()).unwrap().index_bytes(), 8 * 501);
    }
}
