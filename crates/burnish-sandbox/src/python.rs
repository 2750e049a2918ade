//! The interpreter: where it is, and which files it needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::process::find_program;

/// An interpreter, resolved: no shim, no virtual environment, no symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    /// Its file.
    pub(crate) program: PathBuf,
    /// Where it looks for modules.
    pub(crate) sys_path: Vec<PathBuf>,
    /// Files and folders that it reads.
    pub(crate) reads: Vec<PathBuf>,
}

/// Asks the interpreter about itself. What it has mapped says which shared libraries it needs.
const ASK: &str = r#"
import json, os, sys, sysconfig
real = os.path.realpath
program = real(getattr(sys, "_base_executable", None) or sys.executable)
paths = [real(path) for path in sys.path if path and os.path.isdir(path)]
reads = [real(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib")] + paths
try:
    import ctypes, hashlib, math, select
except ImportError:
    pass
with open("/proc/self/maps") as maps:
    for line in maps:
        place = line.split(None, 5)[5:]
        if place and place[0].startswith("/") and ".so" in place[0]:
            reads.append(os.path.dirname(real(place[0].strip())))
print(json.dumps({"program": program, "sys_path": paths, "reads": reads}))
"#;

/// Oldest version that the script in the sandbox is written for.
const OLDEST: &str = "import sys; sys.exit(sys.version_info < (3, 8))";

/// Folders of libraries that every program may need; some are links on some systems.
pub(crate) const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// Single files of the system.
const FILES: [&str; 2] = ["/etc/ld.so.cache", "/usr/share/zoneinfo"];

impl Interpreter {
    /// Finds `python` (a path, or a name in PATH) and asks it where its parts are.
    ///
    /// # Errors
    /// If there is no such program, or it is no Python that can be used: why.
    pub(crate) fn find(python: &str) -> Result<Self, String> {
        let problem = |why: String| format!("`{python}` can't be used as the interpreter: {why}");
        let program = find_program(&[python.to_owned()], None).map_err(|error| problem(error.to_string()))?;
        let run = |script: &str| {
            Command::new(&program)
                .args(["-I", "-c", script])
                .stdin(Stdio::null())
                .output()
                .map_err(|error| problem(error.to_string()))
        };
        if !run(OLDEST)?.status.success() {
            return Err(problem("it is no Python 3.8 or newer".into()));
        }
        let told = run(ASK)?;
        if !told.status.success() {
            return Err(problem(String::from_utf8_lossy(&told.stderr).trim().to_owned()));
        }
        let mut found: Interpreter =
            serde_json::from_slice(&told.stdout).map_err(|error| problem(error.to_string()))?;
        let system = LIBRARIES.iter().chain(&FILES).filter_map(|path| Path::new(path).canonicalize().ok());
        found.reads.extend(system);
        found.reads.push(found.program.clone());
        found.reads = outermost(found.reads);
        match found.reads.iter().find(|path| path.components().count() < 2) {
            Some(root) => Err(problem(format!("it keeps its modules in {}", root.display()))),
            None => Ok(found),
        }
    }
}

/// The paths without those that lie in others of them.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.exists() && !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_another_folder_is_not_named_twice() {
        let paths = ["/usr/lib", "/usr/lib/x86", "/usr", "/no/such/folder"].map(PathBuf::from);
        assert_eq!(outermost(paths.to_vec()), [PathBuf::from("/usr")]);
    }

    #[test]
    fn a_program_that_is_no_python_is_refused_with_its_name() {
        let error = Interpreter::find("no-such-python").unwrap_err();
        assert!(error.contains("`no-such-python`"), "{error}");
        let error = Interpreter::find("true").unwrap_err();
        assert!(!error.is_empty());
    }
}
