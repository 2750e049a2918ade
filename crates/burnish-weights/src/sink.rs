//! A sink: the files of a new checkpoint, laid out before the first number is computed.
//!
//! Names, types and shapes of all tensors are known beforehand, so every byte has its place: the parts of a tensor may
//! be written in any order and by any thread, and the bytes are the same. The directory is written under another name
//! and gets its own when all is on disk; if anything fails or the process is told to stop, it is removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burnish_shards::{INDEX, SINGLE};
use safetensors::Dtype;
use serde_json::{Map, Value, json};

use crate::WeightsError;

/// Largest file unless told otherwise, in bytes, as in `transformers` and mergekit.
pub const SHARD_BYTES_MAX: u64 = 5_000_000_000;

/// What a tensor of the new checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// Type of its numbers.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A new checkpoint while it is written.
#[derive(Debug)]
pub struct Sink {
    output: PathBuf,
    partial: PathBuf,
    files: Vec<(PathBuf, File)>,
    /// File and first byte of each planned tensor, in the order in which they were planned.
    places: Vec<(usize, u64)>,
    is_done: bool,
}

impl Sink {
    /// Lays out `tensors`, in this order, in files `model*.safetensors` of at most `shard_bytes_max` bytes of tensors,
    /// or one tensor, each.
    ///
    /// # Errors
    /// If `output` exists, or files can't be made beside it.
    pub fn create(output: &Path, tensors: &[Planned], shard_bytes_max: u64) -> Result<Self, WeightsError> {
        Self::create_as(output, tensors, shard_bytes_max, SINGLE)
    }

    /// As [`Sink::create`], where a single file is called `single`.
    ///
    /// # Errors
    /// As [`Sink::create`].
    pub fn create_as(
        output: &Path,
        tensors: &[Planned],
        shard_bytes_max: u64,
        single: &str,
    ) -> Result<Self, WeightsError> {
        if fs::symlink_metadata(output).is_ok() {
            let problem = format!("{} exists already; name a new directory", output.display());
            return Err(WeightsError::Refused(problem));
        }
        let Some(name) = output.file_name() else {
            return Err(WeightsError::Refused(format!("{} names no directory", output.display())));
        };
        let partial = make_partial(output, &name.to_string_lossy());
        let mut sink = Sink {
            output: output.to_owned(),
            partial: partial.map_err(|source| WeightsError::write(output, source))?,
            files: Vec::new(),
            places: vec![(0, 0); tensors.len()],
            is_done: false,
        };
        let shards = shards(tensors, shard_bytes_max);
        let mut weight_map = BTreeMap::new();
        for (at, shard) in shards.iter().enumerate() {
            let name = match shards.len() {
                1 => single.to_owned(),
                count => format!("model-{:05}-of-{count:05}.safetensors", at + 1),
            };
            sink.begin(&name, tensors, shard)?;
            weight_map.extend(shard.iter().map(|&at| (tensors[at].name.as_str(), name.clone())));
        }
        if shards.len() > 1 {
            let total: usize = tensors.iter().map(|tensor| tensor.bytes).sum();
            let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
            sink.text(INDEX, &format!("{index:#}\n"))?;
        }
        Ok(sink)
    }

    /// Makes a file with its header and room for its tensors.
    fn begin(&mut self, name: &str, tensors: &[Planned], shard: &[usize]) -> Result<(), WeightsError> {
        // Wider numbers first, so that all are aligned; names are in the order of their bytes.
        let mut order = shard.to_vec();
        order.sort_by_key(|&at| std::cmp::Reverse(tensors[at].dtype.bitsize()));
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!({ "format": "pt" }));
        let mut end = 0;
        for &at in &order {
            let Planned { name, dtype, shape, bytes } = &tensors[at];
            let offsets = [end, end + bytes];
            header.insert(
                name.clone(),
                json!({ "dtype": dtype.to_string(), "shape": shape, "data_offsets": offsets }),
            );
            end += bytes;
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let begin = 8 + header.len();
        let mut place = begin as u64;
        for &at in &order {
            self.places[at] = (self.files.len(), place);
            place += tensors[at].bytes as u64;
        }
        let path = self.partial.join(name);
        let file = File::create(&path).and_then(|mut file| {
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(&header)?;
            file.set_len((begin + end) as u64)?;
            Ok(file)
        });
        let file = file.map_err(|source| WeightsError::write(&self.output.join(name), source))?;
        self.files.push((self.output.join(name), file));
        Ok(())
    }

    /// Writes bytes of the tensor that was planned as number `tensor`, from its byte `from` on.
    ///
    /// # Errors
    /// If the system can't.
    pub fn write(&self, tensor: usize, from: usize, bytes: &[u8]) -> Result<(), WeightsError> {
        let (file, start) = self.places[tensor];
        let (path, file) = &self.files[file];
        write_at(file, start + from as u64, bytes).map_err(|source| WeightsError::write(path, source))
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// If the system can't.
    pub fn text(&self, name: &str, text: &str) -> Result<(), WeightsError> {
        let path = self.partial.join(name);
        let written = File::create(path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| WeightsError::write(&self.output.join(name), source))
    }

    /// Copies the file `from` to `name`, which may be in a folder. Its permissions are those of a new file.
    ///
    /// # Errors
    /// If the system can't.
    pub fn copy(&self, from: &Path, name: &Path) -> Result<(), WeightsError> {
        let mut source = File::open(from).map_err(|source| WeightsError::read(from, source))?;
        let path = self.partial.join(name);
        let copied = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mut copy = File::create(&path)?;
            io::copy(&mut source, &mut copy)?;
            copy.sync_all()
        });
        copied.map_err(|source| WeightsError::write(&self.output.join(name), source))
    }

    /// Puts everything on disk, and gives the directory its name.
    ///
    /// # Errors
    /// If the system can't; then nothing stays.
    pub fn finish(mut self) -> Result<(), WeightsError> {
        for (path, file) in &self.files {
            file.sync_all().map_err(|source| WeightsError::write(path, source))?;
        }
        let failed = |source| WeightsError::write(&self.output, source);
        sync_dir(&self.partial).map_err(failed)?;
        // Another process may have made it meanwhile; renaming would replace an empty directory.
        if fs::symlink_metadata(&self.output).is_ok() {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        fs::rename(&self.partial, &self.output).map_err(failed)?;
        self.is_done = true;
        sync_dir(parent(&self.output)).map_err(failed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.is_done {
            // Best effort: whatever went wrong before is the error to report.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Which tensors go into which file: each file is filled before the next begins.
fn shards(tensors: &[Planned], bytes_max: u64) -> Vec<Vec<usize>> {
    let mut shards = vec![Vec::new()];
    let mut size = 0;
    for (at, tensor) in tensors.iter().enumerate() {
        let bytes = tensor.bytes as u64;
        if size + bytes > bytes_max && size > 0 {
            shards.push(Vec::new());
            size = 0;
        }
        size += bytes;
        if let Some(last) = shards.last_mut() {
            last.push(at);
        }
    }
    shards
}

#[cfg(unix)]
fn write_at(file: &File, place: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, place)
}

#[cfg(windows)]
fn write_at(file: &File, mut place: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, place)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        (place, bytes) = (place + written as u64, &bytes[written..]);
    }
    Ok(())
}

/// Makes a directory beside `output` that did not exist before: what another process left or writes there is not touched.
fn make_partial(output: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent(output))?;
    let mut count = 0;
    loop {
        let partial = output.with_file_name(format!(".{name}.{}.{count}.partial", std::process::id()));
        match fs::create_dir(&partial) {
            // In a container, the process that was killed here may have had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => count += 1,
            made => return made.map(|()| partial),
        }
    }
}

/// The directory that `path` is in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// New names in a directory are durable only once it is synced.
fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    fn planned(name: &str, dtype: Dtype, count: usize) -> Planned {
        Planned { name: name.into(), dtype, shape: vec![count], bytes: count * dtype.bitsize() / 8 }
    }

    fn tensors() -> Vec<Planned> {
        vec![
            planned("narrow", Dtype::U8, 3),
            planned("a", Dtype::BF16, 5),
            planned("wide", Dtype::F32, 2),
            planned("none", Dtype::F32, 0),
        ]
    }

    fn fill(sink: &Sink) {
        for (at, tensor) in tensors().iter().enumerate() {
            // In pieces, the last first.
            for from in (0..tensor.bytes).rev() {
                sink.write(at, from, &[16 * at as u8 + from as u8]).unwrap();
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_whatever_the_size_of_files() {
        let dir = tempfile::tempdir().unwrap();
        for (at, (bytes_max, files)) in [(1000, 1), (13, 2), (8, 3), (0, 4)].into_iter().enumerate() {
            let output = dir.path().join(at.to_string());
            let sink = Sink::create(&output, &tensors(), bytes_max).unwrap();
            fill(&sink);
            assert!(!output.exists());
            sink.finish().unwrap();
            let read = Checkpoint::open(&output).unwrap();
            assert_eq!(read.files().count(), files);
            assert_eq!(read.len(), 4);
            for (at, tensor) in tensors().iter().enumerate() {
                let view = read.get(&tensor.name).unwrap();
                assert_eq!((view.dtype, view.shape), (tensor.dtype, &*tensor.shape));
                let expected: Vec<u8> = (0..tensor.bytes).map(|from| 16 * at as u8 + from as u8).collect();
                assert_eq!(view.bytes, expected);
                let width = tensor.dtype.bitsize() / 8;
                assert_eq!(view.bytes.as_ptr().addr() % width, 0, "{} is not aligned", tensor.name);
            }
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing else is left");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing_and_what_exists_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out");
        let sink = Sink::create(&output, &tensors(), 8).unwrap();
        fill(&sink);
        drop(sink);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let sink = Sink::create(&output, &tensors(), 8).unwrap();
        fs::create_dir(&output).unwrap();
        let error = sink.finish().unwrap_err().to_string();
        assert!(error.contains("out"), "{error}");
        let error = Sink::create(&output, &tensors(), 8).unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_that_write_at_once_or_one_that_was_killed_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("out");
        let [first, second] =
            [8, 1000].map(|bytes_max| Sink::create(&output, &tensors(), bytes_max).unwrap());
        fill(&first);
        fill(&second);
        second.finish().unwrap();
        assert!(first.finish().is_err());
        assert_eq!(Checkpoint::open(&output).unwrap().len(), 4);
        assert_eq!(fs::read_dir(&output).unwrap().count(), 1, "no shard of the first is among them");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_that_cannot_be_read_names_what_it_reads() {
        let dir = tempfile::tempdir().unwrap();
        let sink = Sink::create(&dir.path().join("out"), &tensors(), 1000).unwrap();
        let absent = dir.path().join("absent.json");
        let error = sink.copy(&absent, Path::new("copy.json")).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("absent.json"), "{error}");
    }
}
