use super::*;

fn create_run(path: &Path) -> RunDir {
    let run = RunDir::create(path, Taken::Refused).unwrap();
    fs::write(run.recipe(), "").unwrap();
    run
}

fn do_a_step(run: &RunDir) {
    fs::write(run.metrics(), "{\"step\":1,\"event\":\"train\"}\n").unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_that_has_done_no_step_makes_place_for_another_whatever_it_left() {
    let dir = tempfile::tempdir().unwrap();
    let run = create_run(dir.path());
    fs::write(run.metrics(), "{\"step\":0,\"event\":\"eval\"}\n").unwrap();
    for file in [run.journal(), dir.path().join("run.db-wal"), dir.path().join(RECORD)] {
        fs::write(file, "x").unwrap();
    }
    fs::create_dir_all(run.start().join("start-base")).unwrap();
    fs::write(dir.path().join(".recipe.toml.7-0.burnish-tmp"), "half").unwrap();
    drop(run);
    RunDir::create(dir.path(), Taken::Refused).unwrap();
    assert_eq!(names(dir.path()), ["checkpoints", "run.lock"]);
}

#[test]
fn what_was_left_when_a_run_was_being_removed_makes_place_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = create_run(dir.path());
    fs::remove_file(run.recipe()).unwrap();
    for gone in [".checkpoints.0.burnish-tmp/step_1", "tensorboard", "teacher"] {
        fs::create_dir_all(dir.path().join(gone)).unwrap();
    }
    fs::write(run.report(), "x").unwrap();
    drop(run);
    RunDir::create(dir.path(), Taken::Refused).unwrap();
    assert_eq!(names(dir.path()), ["checkpoints", "run.lock"]);
}

#[test]
fn a_run_is_removed_on_demand_and_what_is_no_run_never_is() {
    let dir = tempfile::tempdir().unwrap();
    let run = create_run(dir.path());
    do_a_step(&run);
    fs::create_dir(run.checkpoint(3)).unwrap();
    let error = RunDir::create(dir.path(), Taken::Removed).unwrap_err();
    assert!(matches!(error, RunDirError::Locked { .. }), "{error}");
    drop(run);
    // Somebody's notes stay, and so does everything else there.
    let notes = dir.path().join("notes.md");
    fs::write(&notes, "x").unwrap();
    let before = names(dir.path());
    let message = RunDir::create(dir.path(), Taken::Removed).unwrap_err().to_string();
    assert!(message.contains("`notes.md`"), "{message}");
    assert_eq!(names(dir.path()), before);
    fs::remove_file(notes).unwrap();
    RunDir::create(dir.path(), Taken::Removed).unwrap();
    assert_eq!(names(dir.path()), ["checkpoints", "run.lock"]);
}

#[test]
fn a_folder_that_no_run_made_stays_whatever_its_files_are_called() {
    for own in ["recipe.toml", "start", "tensorboard", "metrics.jsonl", "report.html", "run.db"] {
        for taken in [Taken::Refused, Taken::Removed] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(own), "mine").unwrap();
            let error = RunDir::create(dir.path(), taken).unwrap_err();
            assert!(error.to_string().contains(&dir.path().display().to_string()), "{own}: {error}");
            assert_eq!(names(dir.path()), [own]);
            assert_eq!(fs::read(dir.path().join(own)).unwrap(), b"mine");
        }
    }
}

#[test]
fn a_new_run_gets_its_directory_and_paths_inside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs/first");
    let run = RunDir::create(&path, Taken::Refused).unwrap();
    assert!(run.checkpoints().is_dir());
    assert_eq!(run.checkpoint(12), path.join("checkpoints/step_12"));
    for file in [run.recipe(), run.metrics(), run.tensorboard(), run.journal(), run.report()] {
        assert_eq!(file.parent(), Some(path.as_path()));
    }
}

#[test]
fn an_existing_run_is_not_overwritten_and_the_error_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    do_a_step(&create_run(dir.path()));
    let message = RunDir::create(dir.path(), Taken::Refused).unwrap_err().to_string();
    assert!(message.contains(&format!("--resume {}", dir.path().display())), "{message}");
    assert!(message.contains("`run.dir`"), "{message}");
}

#[test]
fn a_directory_of_something_else_is_refused_and_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "x").unwrap();
    let message = RunDir::create(dir.path(), Taken::Refused).unwrap_err().to_string();
    assert!(message.contains("thesis.tex"), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let file = dir.path().join("thesis.tex");
    let message = RunDir::create(&file, Taken::Refused).unwrap_err().to_string();
    assert!(message.contains("thesis.tex"), "{message}");
}

#[test]
fn a_run_that_stopped_before_it_had_written_anything_can_be_created_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::create(dir.path(), Taken::Refused).unwrap());
    let run = RunDir::create(dir.path(), Taken::Refused).unwrap();
    fs::create_dir(run.checkpoint(1)).unwrap();
    drop(run);
    let message = RunDir::create(dir.path(), Taken::Refused).unwrap_err().to_string();
    assert!(message.contains("`checkpoints`"), "{message}");
}

#[test]
fn looking_whether_a_directory_is_taken_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/run");
    RunDir::refuse_taken(&path, Taken::Refused).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn only_a_run_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let error = RunDir::open(&path).unwrap_err();
        assert!(matches!(error, RunDirError::Missing { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_lock_keeps_a_second_holder_off_and_ends_with_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let run = create_run(dir.path());
    let error = RunDir::open(dir.path()).unwrap_err();
    assert!(matches!(&error, RunDirError::Locked { pid, .. } if *pid == Some(std::process::id())), "{error}");
    let message = error.to_string();
    assert!(message.contains(&dir.path().display().to_string()), "{message}");
    drop(run);
    RunDir::open(dir.path()).unwrap();
}

#[test]
fn opening_removes_what_an_interrupted_write_left() {
    let dir = tempfile::tempdir().unwrap();
    drop(create_run(dir.path()));
    let leftover = dir.path().join(".report.html.1-0.burnish-tmp");
    fs::write(&leftover, "half").unwrap();
    RunDir::open(dir.path()).unwrap();
    assert!(!leftover.exists());
}

/// The child process of `a_lock_of_another_process_is_seen_and_ends_when_that_process_is_killed`. Does nothing by
/// itself.
#[test]
fn in_a_child_that_holds_the_lock() {
    let Some(path) = std::env::var_os("BURNISH_TEST_RUN_DIR") else { return };
    let _run = RunDir::open(Path::new(&path)).unwrap();
    println!("holding");
    // Waits until the parent kills this process, or ends itself.
    let _ = io::stdin().read(&mut [0]);
}

#[test]
fn a_lock_of_another_process_is_seen_and_ends_when_that_process_is_killed() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    drop(create_run(dir.path()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run_dir::tests::in_a_child_that_holds_the_lock", "--nocapture"])
        .env("BURNISH_TEST_RUN_DIR", dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("holding")));

    let error = RunDir::open(dir.path()).unwrap_err();
    assert!(matches!(&error, RunDirError::Locked { pid, .. } if *pid == Some(child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    RunDir::open(dir.path()).unwrap();
}
