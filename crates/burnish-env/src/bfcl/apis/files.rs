//! A file system of directories and files, with a current directory.
//!
//! Directories are found through handles, as Python's objects are: a directory that was moved leaves its old object to the
//! directories below it, and a copy shares everything below its first level with the original.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Api, Given, Outcome, Scenario, refusal};
use crate::bfcl::python::lines;

/// Deepest nesting of a row's directories.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    File(usize),
    Directory(usize),
}

#[derive(Debug, Clone)]
struct File {
    name: String,
    content: String,
}

#[derive(Debug, Clone)]
struct Directory {
    name: String,
    parent: Option<usize>,
    /// The place of its entries, which an old object of a moved directory shares with the new one.
    entries: usize,
}

/// The file system.
#[derive(Debug, Clone)]
pub(super) struct Files {
    files: Vec<File>,
    directories: Vec<Directory>,
    /// Names and items, in the order in which they came.
    entries: Vec<Vec<(String, Item)>>,
    current: usize,
}

/// The root, which never changes.
const ROOT: usize = 0;

impl Files {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let mut made = Files { files: vec![], directories: vec![], entries: vec![], current: ROOT };
        let root = scenario.object("root", json!({}))?;
        let Some((name, root)) = root.iter().next() else {
            made.directory("/", None);
            return Ok(made);
        };
        made.directory(name, None);
        made.load(ROOT, root, 0).map_err(|problem| format!("root.{name}{problem}"))?;
        Ok(made)
    }

    fn load(&mut self, into: usize, given: &Value, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!(": is nested in more than {DEPTH_MAX} directories"));
        }
        let contents =
            given.get("contents").and_then(Value::as_object).ok_or(".contents: must be an object")?;
        for (name, given) in contents {
            let here = |problem: String| format!(".contents.{name}{problem}");
            let item = match given.get("type").and_then(Value::as_str) {
                Some("directory") => {
                    let made = self.directory(name, Some(into));
                    self.load(made, given, depth + 1).map_err(here)?;
                    Item::Directory(made)
                }
                Some("file") => {
                    let content = given.get("content").and_then(Value::as_str);
                    self.file(name, content.ok_or_else(|| here(".content: must be a string".to_owned()))?)
                }
                _ => return Err(here(".type: must be `file` or `directory`".to_owned())),
            };
            self.put(into, name, item);
        }
        Ok(())
    }

    fn file(&mut self, name: &str, content: &str) -> Item {
        self.files.push(File { name: name.to_owned(), content: content.to_owned() });
        Item::File(self.files.len() - 1)
    }

    fn directory(&mut self, name: &str, parent: Option<usize>) -> usize {
        self.entries.push(Vec::new());
        self.directories.push(Directory { name: name.to_owned(), parent, entries: self.entries.len() - 1 });
        self.directories.len() - 1
    }

    fn list(&self, directory: usize) -> &Vec<(String, Item)> {
        &self.entries[self.directories[directory].entries]
    }

    fn put(&mut self, directory: usize, name: &str, item: Item) {
        self.entries[self.directories[directory].entries].push((name.to_owned(), item));
    }

    fn take(&mut self, name: &str) {
        self.entries[self.directories[self.current].entries].retain(|(known, _)| known != name);
    }

    fn find(&self, directory: usize, name: &str) -> Option<Item> {
        self.list(directory).iter().find(|(known, _)| known == name).map(|(_, item)| *item)
    }

    /// What the current directory has under a name.
    fn here(&self, name: &str) -> Option<Item> {
        self.find(self.current, name)
    }

    /// The content of a file in the current directory.
    fn content(&self, name: &str) -> Option<&str> {
        match self.here(name)? {
            Item::File(at) => Some(&self.files[at].content),
            Item::Directory(_) => None,
        }
    }

    /// The directory that a path leads to from the current one, or from the root if it begins with a slash.
    fn navigate(&self, path: &str) -> Option<usize> {
        let start = if path.starts_with('/') { ROOT } else { self.current };
        let mut at = start;
        for part in path.trim_matches('/').split('/').filter(|_| path != "/") {
            if part == "." {
                continue;
            }
            match self.find(at, part)? {
                Item::Directory(next) => at = next,
                Item::File(_) => return None,
            }
        }
        Some(at)
    }

    fn pwd(&self) -> Value {
        let mut names = Vec::new();
        let mut at = Some(self.current);
        while let Some(directory) = at.map(|at| &self.directories[at]) {
            names.push(directory.name.as_str());
            at = directory.parent;
        }
        names.reverse();
        json!({ "current_working_directory": format!("/{}", names.join("/")) })
    }

    fn cd(&mut self, folder: &str) -> Outcome {
        let folder = match folder.trim_end_matches('/') {
            "" => "/",
            folder => folder,
        };
        if folder != "/" && folder.contains('/') {
            let problem = "Unsupported path. Only one folder level at a time is supported.";
            return refusal(format!("cd: {folder}: {problem}"));
        }
        if folder == ".." {
            let Some(parent) = self.directories[self.current].parent else {
                return refusal("Current directory is already the root. Cannot go back.");
            };
            self.current = parent;
            return Ok(json!({}));
        }
        match self.navigate(folder) {
            None => refusal(format!("cd: '{folder}': No such file or directory")),
            Some(to) => {
                self.current = to;
                Ok(json!({ "current_working_directory": self.directories[to].name }))
            }
        }
    }

    fn matches(&self, directory: usize, base: &str, name: Option<&str>, found: &mut Vec<String>) {
        for (known, item) in self.list(directory) {
            let path = format!("{base}/{known}");
            if name.is_none_or(|name| known.contains(name)) {
                found.push(path.clone());
            }
            if let Item::Directory(below) = item {
                self.matches(*below, &path, name, found);
            }
        }
    }

    fn size(&self, directory: usize) -> usize {
        let size = |(_, item): &(String, Item)| match item {
            Item::File(at) => self.files[*at].content.len(),
            Item::Directory(below) => self.size(*below),
        };
        self.list(directory).iter().map(size).sum()
    }

    /// Makes a new file or directory; nothing is returned.
    fn create(&mut self, command: &str, name: &str, is_directory: bool) -> Outcome {
        let what = if is_directory { "create directory" } else { "touch" };
        if !is_name(name) {
            return refusal(format!("{command}: cannot {what} '{name}': Invalid character"));
        }
        if self.here(name).is_some() {
            return refusal(format!("{command}: cannot {what} '{name}': File exists"));
        }
        let item = match is_directory {
            true => Item::Directory(self.directory(name, Some(self.current))),
            false => self.file(name, ""),
        };
        self.put(self.current, name, item);
        Ok(Value::Null)
    }

    fn echo(&mut self, given: &Given<'_>) -> Outcome {
        let content = given.text("content")?;
        let Some(name) = given.maybe_text("file_name")?.filter(|name| !name.is_empty()) else {
            return Ok(json!({ "terminal_output": content }));
        };
        if !is_name(name) {
            return refusal(format!("echo: cannot write to '{name}': Invalid character"));
        }
        match self.here(name) {
            Some(Item::File(at)) => {
                self.files[at].content = content.to_owned();
                Ok(Value::Null)
            }
            Some(Item::Directory(_)) => Err("'Directory' object has no attribute '_write'".to_owned()),
            None => refusal(format!("echo: cannot write to '{name}': No such file")),
        }
    }

    fn count(&self, name: &str, mode: &str) -> Outcome {
        if !matches!(mode, "l" | "w" | "c") {
            return refusal(format!("wc: invalid mode '{mode}'"));
        }
        let Some(content) = self.content(name) else {
            return refusal(format!("wc: {name}: No such file or directory"));
        };
        Ok(match mode {
            "l" => json!({ "count": lines(content).len(), "type": "lines" }),
            "w" => json!({ "count": content.split_whitespace().count(), "type": "words" }),
            _ => json!({ "count": content.chars().count(), "type": "characters" }),
        })
    }

    fn usage(&self, is_readable: bool) -> Value {
        let bytes = self.size(self.current);
        if !is_readable {
            return json!({ "disk_usage": format!("{bytes} bytes") });
        }
        let mut size = bytes as f64;
        let mut units = ["B", "KB", "MB", "GB", "TB"].into_iter();
        let unit = loop {
            match units.next() {
                Some(unit) if size < 1024.0 => break unit,
                Some(_) => size /= 1024.0,
                None => break "PB",
            }
        };
        json!({ "disk_usage": format!("{size:.2} {unit}") })
    }

    fn tail(&self, name: &str, count: i64) -> Outcome {
        let Some(content) = self.content(name) else {
            return refusal(format!("tail: {name}: No such file or directory"));
        };
        let lines = lines(content);
        let length = lines.len() as i64;
        // As a slice from `-count` on: 0 lines are all of them, and of fewer than 0 the first are left out.
        let from = match count.min(length) {
            0 => 0,
            count if count > 0 => length - count,
            count => count.saturating_neg().min(length),
        };
        Ok(json!({ "last_lines": lines[from as usize..].join("\n") }))
    }

    fn diff(&self, one: &str, other: &str) -> Outcome {
        let (Some(first), Some(second)) = (self.content(one), self.content(other)) else {
            return refusal(format!("diff: {one} or {other}: No such file or directory"));
        };
        let pairs = lines(first).into_iter().zip(lines(second)).filter(|(one, other)| one != other);
        let shown: Vec<String> = pairs.map(|(one, other)| format!("- {one}\n+ {other}")).collect();
        Ok(json!({ "diff_lines": shown.join("\n") }))
    }

    /// Moves or copies an item of the current directory.
    fn transfer(&mut self, source: &str, destination: &str, is_move: bool) -> Outcome {
        let (command, verb, done) = if is_move { ("mv", "move", "moved") } else { ("cp", "copy", "copied") };
        let cannot = |rest: &str| refusal(format!("{command}: cannot {verb} '{source}'{rest}"));
        let Some(item) = self.here(source) else { return cannot(": No such file or directory") };
        if destination.contains('/') {
            let problem = "path not allowed in destination. Provide only a file or directory name.";
            return refusal(format!("{command}: {problem}"));
        }
        let (target, name, place) = match self.here(destination) {
            // Python makes a directory that holds itself, on which nothing can be said any more.
            Some(target) if target == item && matches!(item, Item::Directory(_)) => {
                return cannot(&format!(" to '{destination}/{source}': it would be within itself"));
            }
            Some(Item::Directory(target)) => {
                // A copy looks for a name with a slash, which no entry has, and then can't add what exists.
                if self.find(target, source).is_some() {
                    let kind = if matches!(item, Item::File(_)) { "File" } else { "Directory" };
                    let directory = &self.directories[target].name;
                    return match is_move {
                        true => cannot(&format!(" to '{destination}/{source}': File exists")),
                        false => Err(format!("{kind} '{source}' already exists in directory '{directory}'.")),
                    };
                }
                (target, source, format!("{destination}/{source}"))
            }
            Some(Item::File(_)) => return cannot(&format!(" to '{destination}': Not a directory")),
            None => (self.current, destination, destination.to_owned()),
        };
        if is_move {
            self.take(source);
        }
        let made = match item {
            Item::File(at) => {
                let content = self.files[at].content.clone();
                self.file(name, &content)
            }
            Item::Directory(at) => {
                let made = self.directory(name, Some(target));
                match is_move {
                    true => self.directories[made].entries = self.directories[at].entries,
                    false => {
                        let entries = self.list(at).clone();
                        let place = self.directories[made].entries;
                        self.entries[place] = entries;
                    }
                }
                Item::Directory(made)
            }
        };
        self.put(target, name, made);
        Ok(json!({ "result": format!("'{source}' {done} to '{place}'") }))
    }

    fn remove(&mut self, command: &str, name: &str) -> Outcome {
        let cannot = |problem: &str| refusal(format!("{command}: cannot remove '{name}': {problem}"));
        match self.here(name) {
            None => return cannot("No such file or directory"),
            Some(Item::File(_)) if command == "rmdir" => return cannot("Not a directory"),
            Some(Item::Directory(at)) if command == "rmdir" && !self.list(at).is_empty() => {
                return cannot("Directory not empty");
            }
            Some(_) => self.take(name),
        }
        Ok(json!({ "result": format!("'{name}' removed") }))
    }

    fn shown(&self, directory: usize) -> Value {
        let entry = |(name, item): &(String, Item)| {
            let value = match item {
                Item::File(at) => json!({ "file": self.files[*at].name, "content": self.files[*at].content }),
                Item::Directory(below) => self.shown(*below),
            };
            (name.clone(), value)
        };
        let contents: Map<String, Value> = self.list(directory).iter().map(entry).collect();
        json!({ "directory": self.directories[directory].name, "contents": contents })
    }

    fn run(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        let name = |key: &str| given.text(key);
        Some(match method {
            "pwd" => Ok(self.pwd()),
            "ls" => given.flag_or("a", false).map(|all| {
                let names = self.list(self.current).iter().map(|(name, _)| name.as_str());
                let names: Vec<&str> = names.filter(|name| all || !name.starts_with('.')).collect();
                json!({ "current_directory_content": names })
            }),
            "cd" => name("folder").and_then(|folder| self.cd(folder)),
            "mkdir" => name("dir_name").and_then(|name| self.create("mkdir", name, true)),
            "touch" => name("file_name").and_then(|name| self.create("touch", name, false)),
            "echo" => self.echo(given),
            "cat" => name("file_name").and_then(|name| match self.here(name) {
                _ if !is_name(name) => refusal(format!("cat: '{name}': Invalid character")),
                Some(Item::File(at)) => Ok(json!({ "file_content": self.files[at].content })),
                Some(Item::Directory(_)) => refusal(format!("cat: '{name}': Is a directory")),
                None => refusal(format!("cat: '{name}': No such file or directory")),
            }),
            "find" => given.maybe_text("path").and_then(|path| {
                let (path, name) = (path.unwrap_or("."), given.maybe_text("name")?);
                let Some(from) = self.navigate(path) else {
                    return refusal(format!("find: '{path}': No such file or directory"));
                };
                let mut found = Vec::new();
                self.matches(from, path.trim_end_matches('/'), name, &mut found);
                Ok(json!({ "matches": found }))
            }),
            "wc" => {
                let mode = given.maybe_text("mode");
                mode.and_then(|mode| self.count(name("file_name")?, mode.unwrap_or("l")))
            }
            "sort" => name("file_name").and_then(|name| {
                let Some(content) = self.content(name) else {
                    return refusal(format!("sort: {name}: No such file or directory"));
                };
                let mut lines = lines(content);
                lines.sort_unstable();
                Ok(json!({ "sorted_content": lines.join("\n") }))
            }),
            "grep" => name("file_name").and_then(|name| {
                let pattern = given.text("pattern")?;
                let Some(content) = self.content(name) else {
                    return refusal(format!("grep: {name}: No such file or directory"));
                };
                let matching = lines(content).into_iter().filter(|line| line.contains(pattern));
                Ok(json!({ "matching_lines": matching.collect::<Vec<_>>() }))
            }),
            "du" => given.flag_or("human_readable", false).map(|is_readable| self.usage(is_readable)),
            "tail" => name("file_name").and_then(|name| {
                self.tail(name, if given.maybe("lines").is_some() { given.whole("lines")? } else { 10 })
            }),
            "diff" => name("file_name1").and_then(|one| self.diff(one, given.text("file_name2")?)),
            "mv" => name("source").and_then(|name| self.transfer(name, given.text("destination")?, true)),
            "cp" => name("source").and_then(|name| self.transfer(name, given.text("destination")?, false)),
            "rm" => name("file_name").and_then(|name| self.remove("rm", name)),
            "rmdir" => name("dir_name").and_then(|name| self.remove("rmdir", name)),
            _ => return None,
        })
    }
}

/// Whether a name has none of the letters that names can't have.
fn is_name(name: &str) -> bool {
    let forbidden: BTreeSet<char> = "|/\\?%*:\"><".chars().collect();
    !name.chars().any(|letter| forbidden.contains(&letter))
}

impl Api for Files {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        self.run(method, given)
    }

    fn state(&self) -> Value {
        self.shown(ROOT)
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
