//! Tests of the handle: failures, and when they are reported.

use super::{
    testing::{OPTIONS, device, device_with},
    *,
};

#[test]
fn a_gpu_that_is_not_there_is_named_with_those_that_are() {
    let Some(_cuda) = device() else { return };
    let error = Cuda::open(7).map(drop).unwrap_err();
    assert!(matches!(error, CudaError::Ordinal { ordinal: 7, .. }), "{error}");
    assert!(error.to_string().contains("there is no GPU cuda:7: the driver knows "));
}

#[test]
fn numbers_go_to_the_gpu_and_come_back() {
    let Some(cuda) = device() else { return };
    let numbers: Vec<i32> = (0..1000).collect();
    let mut buffer = Buffer::upload(&cuda, &numbers);
    assert_eq!(buffer.download().unwrap(), numbers);
    let copy = buffer.clone();
    buffer.slice_mut(10..20).fill_zero(&cuda);
    assert_eq!(copy.slice(5..25).download(&cuda).unwrap(), numbers[5..25]);
    assert_eq!(buffer.slice(10..20).download(&cuda).unwrap(), [0; 10]);
    assert_eq!(buffer.slice(20..22).download(&cuda).unwrap(), [20, 21]);
    assert_eq!(Buffer::<f64>::zeros(&cuda, 3).download().unwrap(), [0.0; 3]);
    assert!(Buffer::<f64>::zeros(&cuda, 0).download().unwrap().is_empty());
}

#[test]
fn memory_in_use_is_counted_until_it_is_given_back() {
    let Some(cuda) = device() else { return };
    let start = cuda.memory_peak_bytes();
    assert!(start >= WORKSPACE_BYTES);
    let one = Buffer::<f32>::zeros(&cuda, 1 << 16);
    drop(one);
    let two = Buffer::<f32>::zeros(&cuda, 1 << 16);
    assert_eq!(cuda.memory_peak_bytes(), start + (4 << 16));
    drop(two);
}

#[test]
fn the_first_error_is_kept_and_comes_out_of_every_download() {
    let Some(cuda) = device() else { return };
    let before = Buffer::upload(&cuda, &[1.0_f32]);
    let too_much = Buffer::<f32>::uninit(&cuda, 1 << 45);
    let mut after = Buffer::upload(&cuda, &[1.0_f32]);
    ops::elementwise::scale(&cuda, after.all_mut(), 2.0);
    for buffer in [&before, &too_much, &after] {
        let error = buffer.download().unwrap_err();
        let CudaError::OutOfMemory { bytes, in_use, free, total } = error else { panic!("{error}") };
        assert_eq!(bytes, 4 << 45);
        assert!(in_use > 0 && in_use < total && free > 0 && free < total);
    }
    assert!(cuda.synchronize().is_err());
}

#[test]
fn more_shared_memory_than_a_block_may_have_is_an_error() {
    let Some(cuda) = device() else { return };
    let mut x = Buffer::upload(&cuda, &[1.0_f32]);
    let plan = LaunchShape::elements(1).with_shared(cuda.shared_bytes_max() + 4096);
    let arguments = &mut [x.all_mut().into(), 2.0_f32.into(), long(1)];
    cuda.launch(Program::Elementwise, "scale", plan, arguments);
    let error = x.download().unwrap_err().to_string();
    assert!(error.contains("bytes of shared memory failed"), "{error}");
}

#[test]
fn a_compiled_program_is_kept_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path().join("cuda"));
    let open = || device_with(Options { cache: cache.clone(), ..OPTIONS });
    if open().is_none() {
        return;
    }
    let run = || {
        let cuda = open().unwrap();
        let mut x = Buffer::upload(&cuda, &[1.5_f32]);
        ops::elementwise::scale(&cuda, x.all_mut(), 2.0);
        x.download()
    };
    assert_eq!(run(), Ok(vec![3.0]));
    let files = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder.path().join("cuda")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let [file] = files().try_into().unwrap();
    assert_eq!(file.extension(), Some("cubin".as_ref()));
    assert_eq!(run(), Ok(vec![3.0]));
    assert_eq!(files(), std::slice::from_ref(&file));
    // A file that can't be loaded is made again.
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"no program\0").unwrap();
    assert_eq!(run(), Ok(vec![3.0]));
    assert_eq!(std::fs::read(&file).unwrap(), whole);
}

#[test]
fn freed_memory_is_used_again_for_its_class() {
    let Some(cuda) = device_with(Options { reuses_memory: true, ..OPTIONS }) else { return };
    let one = Buffer::upload(&cuda, &[1.0_f32; 1000]);
    let address = one.all().address();
    let other = Buffer::upload(&cuda, &[2.0_f32; 1000]);
    drop(one);
    let again = Buffer::upload(&cuda, &[3.0_f32; 990]);
    assert_eq!(again.all().address(), address);
    // Work queued on it earlier is done first.
    let sum = ops::elementwise::add(&cuda, again.all().into(), other.slice(0..990).into());
    drop((again, other));
    assert_eq!(sum.download().unwrap(), [5.0; 990]);
}

#[test]
fn memory_that_is_kept_is_given_up_where_the_card_has_no_other() {
    let Some(cuda) = device_with(Options { reuses_memory: true, ..OPTIONS }) else { return };
    let eighth = cuda.memory_free_bytes().unwrap() / 8 / size_of::<u64>();
    let buffer = |eighths: usize| Buffer::<u64>::uninit(&cuda, eighths * eighth);
    // What is freed is of another class, and in pieces that no larger buffer fits into.
    drop([buffer(2), buffer(2), buffer(2)]);
    let other = buffer(6);
    assert_eq!(cuda.synchronize(), Ok(()));
    drop(other);
}

#[test]
fn memory_that_is_kept_is_given_up_for_a_kernel() {
    let Some(cuda) = device_with(Options { reuses_memory: true, ..OPTIONS }) else { return };
    let mut x = Buffer::upload(&cuda, &[1.5_f32]);
    if !testing::is_real() {
        // All but half a MiB of the emulated device.
        drop([208, 15].map(|mib| Buffer::<f64>::uninit(&cuda, mib << 17)));
        assert!(result::mem_get_info().unwrap().0 < 1 << 20);
    }
    ops::elementwise::scale(&cuda, x.all_mut(), 2.0);
    assert_eq!(x.download(), Ok(vec![3.0]));
}

#[test]
fn what_is_kept_counts_as_free() {
    let Some(cuda) = device_with(Options { reuses_memory: true, ..OPTIONS }) else { return };
    let free = || cuda.memory_free_bytes().unwrap();
    let before = free();
    let buffer = Buffer::<f64>::uninit(&cuda, 1 << 16);
    if !testing::is_real() {
        assert_eq!(before - free(), 8 << 16);
    }
    drop(buffer);
    assert_eq!(lock(&cuda.memory).drain().len(), 1, "it is kept");
    if !testing::is_real() {
        assert_eq!(free(), before);
    }
}

#[test]
fn a_card_that_the_compiler_does_not_know_gets_code_for_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = |capability| {
        device_with(Options { capability: Some(capability), cache: Some(folder.path().into()), ..OPTIONS })
    };
    if testing::is_real() {
        return;
    }
    // The emulated compiler knows 8.0, 9.0 and 10.0.
    for (capability, suffix) in [((9, 0), "cubin"), ((10, 3), "ptx")] {
        let Some(cuda) = open(capability) else { return };
        let mut x = Buffer::upload(&cuda, &[1.5_f32]);
        ops::elementwise::scale(&cuda, x.all_mut(), 2.0);
        assert_eq!(x.download(), Ok(vec![3.0]));
        let is_new = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().path().extension() == Some(suffix.as_ref())
        };
        assert!(std::fs::read_dir(folder.path()).unwrap().any(is_new), "{suffix}");
    }
    let Some(cuda) = open((7, 0)) else { return };
    let mut x = Buffer::upload(&cuda, &[1.5_f32]);
    ops::elementwise::scale(&cuda, x.all_mut(), 2.0);
    assert!(matches!(x.download(), Err(CudaError::Capability { oldest: 80, .. })));
}
